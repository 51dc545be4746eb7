"""I4 fences rise, I5 order in a session, I6 one turn at a time: each way to break them is convicted, by name."""

from dataclasses import replace

import pytest

from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import Scene


def test_i4_a_claim_without_a_new_fence() -> None:
    evidence = Scene().submit().claim().settle(outcome="retried").claim().settle().rest()
    amend(evidence.audit, lambda change: change.after == "RUNNING" and change.fence == 2, fence=1)

    assert_convicts(evidence, "I4", "was claimed under fence 1 after fence 1")


def test_i4_a_settlement_under_an_older_fence() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    amend(evidence.audit, lambda change: change.after == "SUCCEEDED", fence=1)

    assert_convicts(evidence, "I4", "was claimed under fence 1 after fence 2")


def test_i4_a_fence_that_changed_without_a_claim() -> None:
    evidence = Scene().submit().cancel().rest()
    amend(evidence.audit, lambda change: change.after == "CANCELED", fence=5)

    assert_convicts(evidence, "I4", "fence 0 became 5 without a claim")


def test_i4_a_handler_under_a_fence_that_nobody_gave() -> None:
    evidence = answered().rest()
    evidence.runs.append(replace(evidence.runs[0], fence=77))

    assert_convicts(evidence, "I4", "ran under fence 77")


@pytest.mark.parametrize("off_by", [-3600.0, 3600.0])
def test_i4_a_lease_by_the_clock_of_a_worker(off_by: float) -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.after == "RUNNING", lease_until=evidence.audit[1].at + 1.5 + off_by)

    assert_convicts(evidence, "I4", "by the database's clock")


def test_i5_a_claim_past_an_open_turn() -> None:
    evidence = Scene().submit("b").submit("a").claim("a").settle("a").claim("b").settle("b").rest()

    assert_convicts(evidence, "I5", "seq 2 was claimed while seq 1 (b)")


def test_i5_a_claim_past_a_turn_that_waits_for_its_retry() -> None:
    scene = Scene().submit("b").submit("a").claim("b").settle("b", "retried")
    evidence = scene.claim("a").settle("a").claim("b").settle("b").rest()

    assert_convicts(evidence, "I5", "seq 2 was claimed while seq 1 (b)")


def test_i5_a_claim_past_a_scheduled_turn_that_has_its_place() -> None:
    scene = Scene().submit("b", scheduled=True).place("b").submit("a")
    evidence = scene.claim("a").settle("a").claim("b").settle("b").rest()

    assert_convicts(evidence, "I5", "seq 2 was claimed while seq 1 (b)")


def test_i5_a_claim_past_a_redriven_turn() -> None:
    scene = Scene().submit("b").claim("b").settle("b", "failed").dead_letter("b").redrive("b").submit("a")
    evidence = scene.claim("a").settle("a").claim("b").settle("b").rest()

    assert_convicts(evidence, "I5", "seq 3 was claimed while seq 2 (b)")


@pytest.mark.parametrize("heard", [[], ["b"], ["c"], ["c", "b"], ["b", "c", "b"]])
def test_i5_a_handler_that_was_shown_another_history(heard: list[str]) -> None:
    scene = Scene().submit("b").submit("c").submit("a").claim("b", heard=[]).settle("b").claim("c").settle("c")
    evidence = scene.claim("a", heard=heard).settle("a").rest()

    assert_convicts(evidence, "I5", "was shown the replies")


def test_i5_a_handler_that_heard_a_turn_which_had_failed() -> None:
    scene = Scene().submit("b").submit("a").claim("b").settle("b", "failed").dead_letter("b")
    evidence = scene.claim("a", heard=["b"]).settle("a").rest()

    assert_convicts(evidence, "I5", "was shown the replies")


def test_i6_two_turns_of_a_session_at_once() -> None:
    evidence = Scene().submit("b").submit("a").claim("b").claim("a").settle("b").settle("a").rest()

    assert_convicts(evidence, "I6", "was claimed (fence 2) while b of its session ran under fence 1")


def test_i6_a_takeover_before_the_lease_was_over() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    amend(evidence.audit, lambda change: change.fence_before == 1, lease_before=evidence.audit[2].at + 0.5)

    assert_convicts(evidence, "I6", "fence 1 was taken over 0.500 s before its lease was over")


def test_i6_a_handler_that_was_run_twice_under_one_claim() -> None:
    assert_convicts(Scene().submit().claim().run(what="began").settle().rest(), "I6", "run twice under fence 1")
