"""What clients are told: I11 reads, I12 keys, I13 cancels, I15 waits, I17 streams, I20 webhooks."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.proof.checker.evidence import Call, Evidence, Fault, StreamRead
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted
from tests.proof.tests.checker.conviction import (
    Build,
    Convicts,
    amended,
    answered,
    assert_acquits,
    assert_convicts,
    claims_of,
    dead,
    each,
    more,
    plus,
)
from tests.proof.tests.checker.scene import ECHO, TENANT, Scene


def overlapping_reads() -> Evidence:
    evidence = answered().read().read(status="RUNNING").rest()
    return amended(evidence, "history", lambda one: one.status == "RUNNING", at=evidence.history[-2].at)


def told_to_stop_and_answered() -> Evidence:
    evidence = answered().rest()
    at = evidence.audit[1].at
    return more(evidence, "history", op="cancel", turn_id="a", status="RUNNING", at=at, until=at + 0.001)


def submit_that_waited(**shown: Any) -> Evidence:
    said = {"generation": 1, "wait": 2, "http": 200, **shown}
    return answered().ask("submit", "a", session="s", content=ECHO, key="k", **said).rest()


def waited(*, lasted: float, late: float = 0.0, wait: float = 8, many: int = 1, **said: object) -> Scene:
    """Reads of a turn that began so long before its end, and came back so long after it."""
    scene = Scene().submit().claim().wait(3).run().settle()
    [end] = [change.at for change in scene.evidence.audit if change.after == "SUCCEEDED"]
    fields: dict[str, Any] = {"status": "SUCCEEDED", "generation": 1, "outcome": "ok", "http": 200, **said}
    call = Call(
        client="w", op="read", at=end + late - lasted, until=end + late, tenant=TENANT, session="s", turn_id="a",
        wait=wait, **fields,
    )  # fmt: skip
    scene.evidence.history += [replace(call, client=f"w{number}") for number in range(many)]
    return scene


def held_up(kind: str) -> Evidence:
    """A wait that outlasted its bound while a fault of that kind was active."""
    evidence = waited(lasted=6.5, wait=2).rest()
    at = evidence.history[-1].at
    return plus(evidence, faults=Fault(at=at, until=at + 1, kind=kind, target="x"))


def one_of_many_late() -> Evidence:
    scene = waited(lasted=2.9, late=0.02, many=5)
    scene.evidence.history += waited(lasted=3.5, late=1.0, many=2).evidence.history[1:]
    return scene.rest(calm=True)


# --- streams

REPLY: dict[str, Any] = {"turn": "a", "fence": 1}


def event(place: str | None, kind: str, **data: Any) -> dict[str, Any]:
    return {"id": place, "event": kind, "data": json.dumps(data)}


METADATA = event(None, "metadata", status="PENDING")
BEGUN = event("1-1", "status", status="RUNNING", attempt=1)
WORDS = event("1-2", "delta", text="1.0 1.1 ")
MORE = event("1-3", "delta", text="1.2 ")
RESET = event("1-7", "reset", text="1.0 1.1 1.2 1.3 ", attempt=1)
END = event("1-4", "end", status="SUCCEEDED", output=REPLY)
LATE_END = event(f"1-{10**15 + 1}", "end", status="SUCCEEDED", output=REPLY)
ALL = [METADATA, BEGUN, WORDS, MORE, END]


def told(*connections: list[dict[str, Any]], after: str | None = None) -> Evidence:
    """One reader was told these events, connection by connection."""
    scene = answered()
    for events in connections:
        complete = events is connections[-1]
        read = StreamRead(reader="r", turn_id="a", after=after, events=events, complete=complete)
        scene.evidence.streams.append(read)
    return scene.rest()


def closed_from_the_table(readers: int) -> Evidence:
    evidence = answered().rest(calm=True)
    for number in range(readers):
        read = StreamRead(reader=f"r{number}", turn_id="a", after=None, events=[METADATA, LATE_END], complete=True)
        evidence.streams.append(read)
    return evidence


def streamed(words: str, *connections: list[dict[str, Any]], after: str | None = None) -> Convicts:
    return Convicts("I17", words, lambda: told(*connections, after=after))


# --- webhooks

EVENT = {"id": "a", "generation": 1, "status": "SUCCEEDED", "attempt": 1}
LATER = 1000.0
OWED = OwedWebhook(turn_id="a", generation=1, event=EVENT, due_at=None, tries=2, delivered_at=LATER)
GIVEN_UP = replace(OWED, delivered_at=None, error="status 500")
TAKEN = Posted(
    at=LATER, event_id="turn_a_1", verified=True, digest="d", body={"type": "turn.succeeded", "data": EVENT},
    answer="204",
)  # fmt: skip
REFUSED = replace(TAKEN, answer="500")


def notified(owed: list[OwedWebhook], posts: list[Posted], scene: Scene | None = None) -> Evidence:
    """A turn that was answered and asked for a webhook, and what came of that."""
    scene = scene or answered()
    turn = scene.turns["a"]
    turn.row = replace(turn.row, webhook=True)
    evidence = scene.rest()
    evidence.webhooks, evidence.posts = owed, posts
    return evidence


def notified_of_each_generation() -> Evidence:
    scene = Scene().submit().claim().run().settle(outcome="failed").redrive().claim().run().settle()
    failed, again = {**EVENT, "status": "FAILED"}, {**EVENT, "generation": 2}
    owed = [replace(OWED, event=failed), replace(OWED, generation=2, event=again)]
    posts = [replace(TAKEN, body={"data": failed}), replace(TAKEN, event_id="turn_a_2", body={"data": again})]
    return notified(owed, posts, scene)


def webhook(words: str, owed: list[OwedWebhook], posts: list[Posted]) -> Convicts:
    return Convicts("I20", words, lambda: notified(owed, posts))


CASES = (
    Convicts("I11", "read RUNNING of generation 1 after anna", lambda: answered().read().read(status="RUNNING")),
    Convicts(
        "I11",
        "read FAILED of generation 1 after",
        lambda: dead().redrive().read().read(status="FAILED", generation=1).cancel(),
    ),
    Convicts("I11", "read 404", lambda: Scene().submit().ask("read", "a", outcome="fail", http=404).cancel()),
    Convicts("I11", "FAILED of generation 1, which it never was", lambda: answered().read(status="FAILED")),
    Convicts("I11", "read a reply of fence 8", lambda: answered().read(output={"turn": "a", "fence": 8})),
    Convicts("I11", "FAILED of generation 1, which it never was", lambda: submit_that_waited(status="FAILED")),
    Convicts(
        "I12",
        "key k was answered with b",
        lambda: Scene().submit("b", key="k").submit("a", key="k").cancel("b").cancel("a"),
    ),
    Convicts("I13", "asked to stop, and it became SUCCEEDED", told_to_stop_and_answered),
    Convicts(
        "I13",
        "was asked to stop and became PENDING",
        lambda: amended(
            Scene().submit().claim().cancel().settle(), "audit", lambda one: one.after == "CANCELED", after="PENDING"
        ),
    ),
    Convicts(
        "I13", "was asked to stop and became RUNNING", lambda: Scene().submit().claim().cancel().take_over().settle()
    ),
    Convicts("I13", "was CANCELED and became PENDING", lambda: Scene().submit().cancel().redrive().claim().settle()),
    Convicts(
        "I13",
        "was told that it is CANCELED, and it is SUCCEEDED",
        lambda: answered().ask("cancel", "a", status="CANCELED"),
    ),
    Convicts(
        "I13",
        "will be CANCELED when it is submitted",
        lambda: Scene().ask("cancel", "a", status=None).submit().claim().run().settle(),
    ),
    Convicts("I15", "asked to wait 2 s and was answered after 6.5 s", lambda: waited(lasted=6.5, wait=2)),
    Convicts("I15", "asked to wait 2 s", lambda: held_up("poison-pill")),
    Convicts(
        "I15",
        "waited 2 s for an answer, and got none",
        lambda: waited(lasted=6.5, wait=2, outcome="unknown", status=None, http=None).rest(calm=True),
    ),
    Convicts("I15", "told of the end 1.00 s late", lambda: waited(lasted=3.5, late=1.0, many=2).rest(calm=True)),
    streamed("before the metadata", [BEGUN, WORDS, MORE, END]),
    streamed("without an id", [METADATA, BEGUN, event(None, "delta", text="1.0 ")]),
    streamed("a gap", [METADATA, BEGUN, MORE, END]),
    streamed("a gap", [METADATA, BEGUN, WORDS], [METADATA, END]),
    streamed("a gap", [METADATA, MORE, END], after="1-1"),
    streamed("ids that do not rise", [METADATA, BEGUN, WORDS], [METADATA, WORDS, MORE, END]),
    streamed("after the end", [*ALL, event("1-5", "delta", text="1.3 ")]),
    streamed("the text '1.0 1.0 '", [METADATA, BEGUN, event("1-2", "delta", text="1.0 1.0 ")]),
    streamed("the text '1.0 1.1 2.0 '", [METADATA, BEGUN, WORDS, event("2-2", "delta", text="2.0 ")]),
    streamed("the end CANCELED, and it is SUCCEEDED", [METADATA, BEGUN, event("1-2", "end", status="CANCELED")]),
    streamed("FAILED, which it never did", [METADATA, BEGUN, event("1-2", "error", status="FAILED")]),
    streamed("was told the output '?'", [METADATA, BEGUN, event("1-2", "end", status="SUCCEEDED", output="?")]),
    Convicts("I17", "from the table, and nothing was wrong", lambda: closed_from_the_table(2)),
    webhook("became SUCCEEDED in generation 1, and no webhook is owed", [], []),
    webhook("is told of as ('a', 1, 'FAILED', 1)", [replace(OWED, event={**EVENT, "status": "FAILED"})], [TAKEN]),
    webhook("for generation 2, which has not ended", [OWED, replace(OWED, generation=2)], [TAKEN]),
    webhook("is called delivered, and its receiver took none", [OWED], [REFUSED]),
    webhook("is still due at rest", [replace(OWED, delivered_at=None, due_at=LATER)], [REFUSED]),
    webhook("was given up after 2 tries (status 500)", [GIVEN_UP], [REFUSED]),
    webhook("was posted 3 times, of 2 tries", [OWED], [TAKEN] * 3),
    webhook("a signature that does not fit", [OWED], [TAKEN, replace(TAKEN, verified=False)]),
    webhook("did not say the same", [OWED], [TAKEN, replace(TAKEN, digest="e")]),
    webhook("and what happened is", [OWED], [replace(TAKEN, body={"data": {**EVENT, "attempt": 2}})]),
    webhook("s before the turn ended", [OWED], [replace(TAKEN, at=1.0)]),
    webhook("as turn_a_9, which is not owed", [OWED], [TAKEN, replace(TAKEN, event_id="turn_a_9")]),
    Convicts(
        "I20",
        "was accepted from anna with a webhook, and has none",
        lambda: amended(answered(), "history", webhook=True),
    ),
)

ACQUITTED: dict[str, Build] = {
    "overlapping reads in any order": overlapping_reads,
    "a cancel of the generation after a redrive": lambda: dead().wait(60).redrive().claim().cancel().settle(),
    "a stream with a reset": lambda: told(
        [METADATA, BEGUN, WORDS], [METADATA, RESET, event("1-8", "end", status="SUCCEEDED", output=REPLY)]
    ),
    "a stream from the middle": lambda: told([METADATA, RESET], [METADATA, LATE_END]),
    "only the words of the last attempt count": lambda: told(
        [METADATA, event("0-1", "status", status="RUNNING", attempt=1), event("0-2", "delta", text="0.0 "), *ALL[1:]]
    ),
    "one stream of a calm run that was closed from the table": lambda: closed_from_the_table(1),
    "a webhook that was delivered twice": lambda: notified([OWED], [TAKEN, TAKEN]),
    "a webhook that was delivered after a lost response": lambda: notified(
        [OWED], [replace(TAKEN, answer="drop"), TAKEN]
    ),
    "a webhook that is not wanted any more": lambda: notified(
        [replace(GIVEN_UP, tries=1)], [replace(TAKEN, answer="410")]
    ),
    "a webhook for each generation": notified_of_each_generation,
}


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


@each(ACQUITTED)
def test_the_checker_acquits(case: Build) -> None:
    assert_acquits(case)


def machine_is_slow() -> Evidence:
    evidence = waited(lasted=6.5, wait=2).rest()
    return more(evidence, "history", like=0, op="list", at=1.0, until=6.0)


@pytest.mark.parametrize(
    "evidence",
    [
        lambda: waited(lasted=2.9, late=0.02).rest(calm=True),
        lambda: held_up("api-frozen"),
        lambda: held_up("postgres-stalled"),
        machine_is_slow,
        one_of_many_late,
    ],
    ids=["in time", "API frozen", "Postgres stalled", "all responses are slow", "one of many is late"],
)
def test_a_wait_that_is_in_time_or_explained_is_acquitted(evidence: Build) -> None:
    assert claims_of(evidence(), "I15") == []


def test_a_webhook_of_a_turn_that_is_open_is_convicted() -> None:
    evidence = notified([OWED], [TAKEN], Scene().submit().claim())

    assert_convicts(evidence, "I20", "generation 1, which has not ended")
