"""What clients are answered: I11 reads, I12 keys, I13 cancels, I15 waits."""

from dataclasses import replace
from typing import Any

from tests.proof.checker.evidence import Call, Evidence, Fault
from tests.proof.tests.checker.conviction import Convicts, amended, answered, dead, more, play, plus
from tests.proof.tests.checker.scene import ECHO, TENANT, Scene


def asked_to_stop_and_answered() -> Evidence:
    evidence = answered().rest()
    at = evidence.audit[1].at
    return more(evidence, "history", op="cancel", turn_id="a", status="RUNNING", at=at, until=at + 0.001)


def submit_that_waited(**shown: Any) -> Scene:
    said = {"generation": 1, "wait": 2, "http": 200, **shown}
    scene = Scene().submit(key="k").play("claim, run, settle")
    return scene.ask("submit", "a", session="s", content=ECHO, key="k", **said)


def waited(*, lasted: float, late: float = 0.0, wait: float = 8, many: int = 1, **said: object) -> Scene:
    """Reads of a turn that began so long before its end, and came back so long after it."""
    scene = play("submit, claim, wait 3, run, settle")
    [end] = [change.at for change in scene.evidence.audit if change.after == "SUCCEEDED"]
    fields: dict[str, Any] = {"status": "SUCCEEDED", "generation": 1, "outcome": "ok", "http": 200, **said}
    call = Call(
        client="w", op="read", at=end + late - lasted, until=end + late, tenant=TENANT, session="s", turn_id="a",
        wait=wait, **fields,
    )  # fmt: skip
    scene.evidence.history += [replace(call, client=f"w{number}") for number in range(many)]
    return scene


def delayed(kind: str) -> Evidence:
    """A wait that outlasted its bound while a fault of that kind was active."""
    evidence = waited(lasted=6.5, wait=2).rest()
    at = evidence.history[-1].at
    return plus(evidence, faults=Fault(at=at, until=at + 1, kind=kind, target="x"))


UNANSWERED = waited(lasted=6.5, wait=2, outcome="unknown", status=None, http=None)
STOPPED = play("submit, claim, cancel, settle")

CONVICTED = (
    Convicts("I11", "read 404", play("submit").ask("read", "a", outcome="fail", http=404).cancel()),
    Convicts("I11", "read RUNNING of generation 1 after anna", answered().read().read(status="RUNNING")),
    Convicts(
        "I11",
        "read FAILED of generation 1 after",
        dead().play("redrive, read").read(status="FAILED", generation=1).cancel(),
    ),
    Convicts("I11", "anna read FAILED of generation 1, which it never was", answered().read(status="FAILED")),
    Convicts("I11", "FAILED of generation 1, which it never was", submit_that_waited(status="FAILED")),
    Convicts("I11", "read a reply of fence 8", answered().read(output={"turn": "a", "fence": 8})),
    Convicts(
        "I12", "key k was answered with b", Scene().submit("b", key="k").submit("a", key="k").play("cancel b, cancel a")
    ),
    Convicts(
        "I13",
        "was asked to stop and became PENDING",
        amended(STOPPED, "audit", lambda one: one.after == "CANCELED", after="PENDING"),
    ),
    Convicts("I13", "was asked to stop and became RUNNING", play("submit, claim, cancel, take_over, settle")),
    Convicts("I13", "was CANCELED and became PENDING", play("submit, cancel, redrive, claim, settle")),
    Convicts("I13", "that it is CANCELED, and it is SUCCEEDED", answered().ask("cancel", "a", status="CANCELED")),
    Convicts(
        "I13",
        "will be CANCELED when it is submitted",
        Scene().ask("cancel", "a", status=None).play("submit, claim, run, settle"),
    ),
    Convicts("I13", "asked to stop, and it became SUCCEEDED", asked_to_stop_and_answered()),
    Convicts("I15", "asked to wait 2 s and was answered after 6.5 s", waited(lasted=6.5, wait=2)),
    Convicts("I15", "asked to wait 2 s", delayed("poison-pill")),
    Convicts("I15", "waited 2 s for an answer, and got none", UNANSWERED.rest(calm=True)),
    Convicts("I15", "answered 1.00 s after the end", waited(lasted=3.5, late=1.0, many=2).rest(calm=True)),
)
