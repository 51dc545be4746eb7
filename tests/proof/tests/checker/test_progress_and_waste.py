"""I15 everything comes to its end, I16 nothing runs in vain without a cause: each exception is convicted, by name."""

import pytest

from tests.proof.checker.evidence import Fault, Life
from tests.proof.tests.checker.conviction import answered, assert_convicts
from tests.proof.tests.checker.scene import Scene


def test_i15_a_turn_that_is_still_open() -> None:
    assert_convicts(Scene().submit().rest(rested_at=None), "I15", "is PENDING at rest")


def test_i15_a_run_that_never_rests() -> None:
    assert_convicts(answered().rest(rested_at=None), "I15", "did not come to rest within 60 s", None)


def test_i15_a_run_that_rests_too_late() -> None:
    assert_convicts(answered().rest(healed_at=0.0, rested_at=60.1), "I15", "took 60.1 s", None)


def test_i15_a_lost_claim_that_waits_too_long_for_its_takeover() -> None:
    scene = Scene().submit().claim()
    evidence = scene.wait(70).take_over().settle().rest(healed_at=0.0)

    assert_convicts(evidence, "I15", "fence 1 was lost and waited")


def test_i15_a_turn_of_a_calm_run_that_only_the_net_remembered() -> None:
    scene = Scene().submit().wire("send").wire("receive").wire("delete").wait(4).wire("send").claim().settle()

    assert_convicts(scene.rest(calm=True), "I15", "was forgotten until the net sent it again")


def test_i16_a_run_in_vain_in_a_calm_run() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest(calm=True)

    assert_convicts(evidence, "I16", "ran in vain under fence 1, in a calm run")


def test_i16_a_claim_that_is_lost_unused_in_a_calm_run() -> None:
    evidence = Scene().submit().claim(runs=False).take_over().settle().rest(calm=True)

    assert_convicts(evidence, "I16", "fence 1 was lost in a calm run")


def test_i16_a_run_that_was_neither_settled_nor_lost() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    del evidence.attempts[0]

    assert_convicts(evidence, "I16", "neither settled nor lost")


@pytest.mark.parametrize("kind", [None, "event-loop-blocked"])
def test_i16_a_lease_that_was_lost_without_a_cause(kind: str | None) -> None:
    scene = Scene().submit().claim()
    scene.evidence.lives.append(Life(at=0.0, role="worker", pid=7, what="started"))
    if kind is not None:
        scene.evidence.faults.append(Fault(at=scene.at, until=scene.at + 1, kind=kind, target="w"))

    assert_convicts(scene.take_over().settle().rest(), "I16", "nothing had happened to its worker")
