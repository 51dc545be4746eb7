"""I7 attempts are counted, I8 poison is contained: each way to break them is convicted, by name."""

from dataclasses import replace

from tests.proof.tests.checker.conviction import amend, answered, assert_convicts, claims_of
from tests.proof.tests.checker.scene import Scene


def test_i7_a_claim_that_counts_no_attempt() -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.after == "RUNNING", attempt=0)

    assert_convicts(evidence, "I7", "was claimed as attempt 0 after 0 failures and 0 lost claims")


def test_i7_a_release_that_is_charged() -> None:
    evidence = Scene().submit().claim().settle(outcome="released").cancel().rest()
    for place, change in enumerate(evidence.audit[2:], start=2):
        evidence.audit[place] = replace(change, attempt=1, attempt_before=1)
    amend(evidence.turns, lambda row: True, attempt=1)

    assert claims_of(evidence, "I7") == ["RUNNING to PENDING made (1, 0, 0) to (1, 0, 0) (attempt, failures, crashes)"]


def test_i7_a_retry_that_is_given_back() -> None:
    evidence = Scene().submit().claim().settle(outcome="retried").cancel().rest()
    amend(evidence.audit, lambda change: change.before == "RUNNING", attempt=0)

    assert_convicts(evidence, "I7", "RUNNING to PENDING made (1, 0, 0) to (0, 1, 0)")


def test_i7_a_takeover_that_counts_no_crash() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    amend(evidence.audit, lambda change: change.fence_before == 1, crashes=0)

    assert_convicts(evidence, "I7", "RUNNING to RUNNING made (1, 0, 0) to (2, 0, 0)")


def test_i7_a_retry_past_the_budget() -> None:
    scene = Scene().submit(max_attempts=2)
    evidence = scene.claim().settle(outcome="retried").claim().settle(outcome="retried").claim().settle().rest()

    assert_convicts(evidence, "I7", "tried again after 2 failures, of 2 allowed")


def test_i7_a_redrive_that_keeps_its_counters() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").dead_letter().redrive().cancel().rest()
    amend(evidence.audit, lambda change: change.before == "FAILED", failures=1)

    assert_convicts(evidence, "I7", "FAILED to PENDING made (1, 1, 0) to (0, 1, 0)")


def test_i7_a_settlement_without_its_record() -> None:
    evidence = answered().rest()
    evidence.attempts.clear()

    assert_convicts(evidence, "I7", "fence 1 was settled as SUCCEEDED and has no attempt record")


def test_i7_a_record_that_says_something_else() -> None:
    evidence = answered().rest()
    amend(evidence.attempts, lambda attempt: True, outcome="failed")

    assert_convicts(evidence, "I7", "is recorded as failed")


def test_i7_a_record_of_another_attempt() -> None:
    evidence = answered().rest()
    amend(evidence.attempts, lambda attempt: True, attempt=2)

    assert_convicts(evidence, "I7", "ran as attempt 1 and is recorded as attempt 2")


def test_i7_a_takeover_without_a_lost_record() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    del evidence.attempts[0]

    assert_convicts(evidence, "I7", "no record says that it was lost")


def test_i7_a_record_of_a_claim_that_nobody_made() -> None:
    evidence = answered().rest()
    evidence.attempts.append(replace(evidence.attempts[0], fence=9, outcome="lost"))

    assert_convicts(evidence, "I7", "under fence 9, which no claim was given")


def test_i7_counters_that_changed_by_themselves() -> None:
    evidence = answered().rest()
    amend(evidence.turns, lambda row: True, crashes=2)

    assert_convicts(evidence, "I7", "the row counts (1, 0, 2)")


def test_i8_a_poison_pill_that_is_run_once_more() -> None:
    evidence = Scene().submit().claim().take_over().take_over().take_over().settle().rest()

    assert_convicts(evidence, "I8", "was run again after 3 lost claims, of 3 allowed")


def test_i8_a_turn_that_lost_more_workers_than_the_terms_allow() -> None:
    evidence = Scene().submit().claim().take_over().take_over().take_over().take_over().settle().rest()

    assert_convicts(evidence, "I8", "lost 4 claims in generation 1, of 3 allowed")


def test_i8_a_turn_that_is_given_up_too_early() -> None:
    evidence = Scene().submit().claim().take_over(status="FAILED").dead_letter().rest()

    assert_convicts(evidence, "I8", "crash loop after 1 lost claims, of 3 allowed")


def test_i7_a_retry_that_keeps_its_crashes() -> None:
    evidence = Scene().submit().claim().take_over().settle(outcome="retried").cancel().rest()
    amend(evidence.audit, lambda change: change.after == "PENDING" and change.before == "RUNNING", crashes=1)

    assert_convicts(evidence, "I7", "RUNNING to PENDING made (2, 0, 1) to (2, 1, 1)")


def test_i8_crashes_before_a_run_that_came_to_its_own_end_count_no_more() -> None:
    scene = Scene().submit().claim().take_over().take_over().settle(outcome="snoozed")
    evidence = scene.claim().take_over().take_over().settle().rest()

    assert claims_of(evidence, "I8") == []
