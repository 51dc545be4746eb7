"""I11 reads go forward, I12 a key names one turn, I13 a cancel is kept: each broken promise is convicted, by name."""

from dataclasses import replace

import pytest

from tests.proof.checker import check
from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import Scene


def test_i11_a_read_that_goes_back() -> None:
    assert_convicts(answered().read().read(status="RUNNING").rest(), "I11", "read RUNNING of generation 1 after anna")


def test_i11_a_read_that_goes_back_for_another_client() -> None:
    evidence = answered().read().read(client="bert", status="PENDING").rest()

    assert_convicts(evidence, "I11", "bert read PENDING of generation 1 after anna had read SUCCEEDED")


def test_i11_a_read_of_an_older_generation() -> None:
    scene = Scene().submit().claim().settle(outcome="failed").dead_letter().redrive().read()
    evidence = scene.read(status="FAILED", generation=1).cancel().rest()

    assert_convicts(evidence, "I11", "read FAILED of generation 1 after")


def test_i11_a_turn_that_is_not_found_after_it_was_accepted() -> None:
    scene = Scene().submit().ask("read", "a", outcome="fail", http=404)

    assert_convicts(scene.cancel().rest(), "I11", "read 404")


def test_i11_a_state_that_never_was() -> None:
    assert_convicts(answered().read(status="FAILED").rest(), "I11", "FAILED of generation 1, which it never was")


def test_i11_a_reply_that_was_not_settled() -> None:
    evidence = answered().read(output={"turn": "a", "fence": 8}).rest()

    assert_convicts(evidence, "I11", "read a reply of fence 8")


def test_i11_overlapping_reads_may_come_in_any_order() -> None:
    scene = answered().read().read(status="RUNNING")
    evidence = scene.rest()
    first, second = evidence.history[-2:]
    evidence.history[-1] = replace(second, at=first.at, until=second.until)

    assert check(evidence) == []


def test_i12_two_turns_for_one_key() -> None:
    evidence = Scene().submit("b", key="k").submit("a", key="k").cancel("b").cancel("a").rest()

    assert_convicts(evidence, "I12", "key k was answered with b")


def test_i13_a_turn_that_succeeds_although_it_was_asked_to_stop() -> None:
    evidence = answered().rest()
    submit = evidence.history[0]
    asked_at = evidence.audit[1].at
    evidence.history.append(
        replace(submit, op="cancel", turn_id="a", status="RUNNING", at=asked_at, until=asked_at + 0.001)
    )

    assert_convicts(evidence, "I13", "asked to stop, and it became SUCCEEDED")


@pytest.mark.parametrize("after", ["SUCCEEDED", "FAILED", "PENDING"])
def test_i13_a_settlement_that_overrules_the_request(after: str) -> None:
    evidence = Scene().submit().claim().cancel().settle().rest()
    amend(evidence.audit, lambda change: change.after == "CANCELED", after=after)

    assert_convicts(evidence, "I13", f"was asked to stop and became {after}")


def test_i13_a_takeover_that_runs_a_cancelled_turn_again() -> None:
    evidence = Scene().submit().claim().cancel().take_over().settle().rest()

    assert_convicts(evidence, "I13", "was asked to stop and became RUNNING")


def test_i13_a_cancelled_turn_that_revives() -> None:
    evidence = Scene().submit().cancel().redrive().claim().settle().rest()

    assert_convicts(evidence, "I13", "was CANCELED and became PENDING")


def test_i13_a_client_that_was_told_of_a_cancel_that_is_none() -> None:
    evidence = answered().ask("cancel", "a", status="CANCELED").rest()

    assert_convicts(evidence, "I13", "was told that it is CANCELED, and it is SUCCEEDED")


def test_i13_a_turn_that_runs_although_it_was_cancelled_before_its_submit() -> None:
    evidence = Scene().ask("cancel", "a", status=None).submit().claim().run().settle().rest()

    assert_convicts(evidence, "I13", "will be CANCELED when it is submitted")


def test_i13_a_request_of_the_generation_before_binds_no_redrive() -> None:
    """A turn can't fail after an acknowledged request; a later generation may do as it likes."""
    scene = Scene().submit().claim().settle(outcome="failed").dead_letter().wait(60)
    evidence = scene.redrive().claim().cancel().settle().rest()

    assert check(evidence) == []
