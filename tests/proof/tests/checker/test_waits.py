"""I11, I15: a wait that tells an end which never was, or outlasts its bound, or needs the net in a calm run, is convicted."""

import json
from dataclasses import replace

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Call, Evidence, Fault, StreamRead
from tests.proof.tests.checker.conviction import answered, assert_convicts, claims_of
from tests.proof.tests.checker.scene import TENANT, Scene


def waited(scene: Scene, *, lasted: float, late: float = 0.0, wait: float = 8, many: int = 1, **said: object) -> Scene:
    """Reads of the turn that began so long before its end, and came back so long after it."""
    [end] = [change.at for change in scene.evidence.audit if change.after == "SUCCEEDED"]
    for number in range(many):
        fields = {"status": "SUCCEEDED", "generation": 1, "outcome": "ok", "http": 200, **said}
        begun, until = end + late - lasted, end + late
        scene.evidence.history.append(
            Call(
                client=f"w{number}", op="read", at=begun, until=until, tenant=TENANT, session="s", turn_id="a", wait=wait,
                **fields,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return scene


def slow() -> Scene:
    """A turn that was answered after three seconds."""
    return Scene().submit().claim().wait(3).run().settle()


@pytest.mark.parametrize("calm", [True, False])
def test_a_wait_that_ended_with_the_turn(calm: bool) -> None:
    assert claims_of(waited(slow(), lasted=2.9, late=0.02).rest(calm=calm), "I15") == []


def test_i11_a_submit_that_waited_and_was_told_an_end_that_never_was() -> None:
    scene = answered()
    scene.ask(
        "submit", "a", session="s", content={"do": "echo"}, key="k", status="FAILED", generation=1, wait=2, http=200
    )

    assert_convicts(scene.rest(), "I11", "FAILED of generation 1, which it never was")


def test_i11_a_submit_that_waited_and_was_told_another_runs_reply() -> None:
    scene = answered()
    shown = {"status": "SUCCEEDED", "generation": 1, "wait": 2, "http": 200, "output": {"fence": 9}}
    scene.ask("submit", "a", session="s", content={"do": "echo"}, key="k", **shown)

    assert_convicts(scene.rest(), "I11", "a reply of fence 9")


def test_i15_a_wait_that_outlasted_its_bound() -> None:
    assert_convicts(waited(slow(), lasted=6.5, wait=2).rest(), "I15", "asked to wait 2 s and was answered after 6.5 s")


@pytest.mark.parametrize(
    ("kind", "convicted"), [("api-frozen", False), ("postgres-stalled", False), ("poison-pill", True)]
)
def test_i15_a_wait_that_outlasted_its_bound_while_the_api_was_held_up(kind: str, convicted: bool) -> None:
    evidence = waited(slow(), lasted=6.5, wait=2).rest()
    at = evidence.history[-1].at
    evidence.faults = [Fault(at=at, until=at + 1, kind=kind, target="x")]

    assert bool(claims_of(evidence, "I15")) == convicted


def test_i15_a_machine_whose_other_answers_take_as_long_explains_a_late_one() -> None:
    evidence = waited(slow(), lasted=6.5, wait=2).rest()
    evidence.history.append(replace(evidence.history[0], op="list", at=1.0, until=6.0))

    assert claims_of(evidence, "I15") == []


def test_i15_a_wait_that_was_not_answered_in_a_calm_run() -> None:
    unanswered = waited(slow(), lasted=6.5, wait=2, outcome="unknown", status=None, http=None)

    assert_convicts(unanswered.rest(calm=True), "I15", "waited 2 s for an answer, and got none")


def test_i15_waits_that_needed_the_net_in_a_calm_run() -> None:
    assert_convicts(waited(slow(), lasted=3.5, late=1.0, many=2).rest(calm=True), "I15", "told of the end 1.00 s late")


def test_i15_one_late_wait_among_many_is_a_lost_hint() -> None:
    scene = waited(waited(slow(), lasted=2.9, late=0.02, many=5), lasted=3.5, late=1.0, many=2)

    assert claims_of(scene.rest(calm=True), "I15") == []


def read_to_its_end(place: str, many: int) -> Evidence:
    """Readers that were told nothing but the end, at this place."""
    scene = answered()
    reply = {"turn": "a", "fence": 1}
    end = {"id": place, "event": "end", "data": json.dumps({"status": "SUCCEEDED", "output": reply})}
    events = [{"id": None, "event": "metadata", "data": "{}"}, end]
    for number in range(many):
        scene.evidence.streams.append(
            StreamRead(reader=f"r{number}", turn_id="a", after=None, events=events, complete=True)
        )
    return scene.rest(calm=True)


def test_i17_streams_of_a_calm_run_that_nobody_closed() -> None:
    assert_convicts(read_to_its_end(f"1-{10**15 + 1}", 2), "I17", "from the table, and nothing was wrong")


def test_i17_one_stream_that_was_closed_from_the_table() -> None:
    assert check(read_to_its_end(f"1-{10**15 + 1}", 1)) == []
