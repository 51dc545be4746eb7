"""I1 nothing lost, I2 nothing settled twice, I3 one effect: each way to break them is convicted, by name."""

from dataclasses import replace

from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import ECHO, Scene


def test_i1_an_accepted_turn_without_a_row() -> None:
    evidence = Scene().ask("submit", "a", session="s", content=ECHO).rest()

    assert_convicts(evidence, "I1", "has no row")


def test_i1_a_row_that_was_deleted() -> None:
    evidence = answered().rest()
    evidence.turns.clear()

    assert_convicts(evidence, "I1", "its row is gone")


def test_i1_an_accepted_turn_that_never_ended() -> None:
    assert_convicts(Scene().submit().claim().rest(rested_at=None), "I1", "still RUNNING at rest")


def test_i1_two_rows_for_a_submit_without_an_answer() -> None:
    scene = Scene().submit("a", outcome="unknown").submit("b", outcome="unknown")
    evidence = scene.cancel("a").cancel("b").rest()
    del evidence.history[1]

    assert_convicts(evidence, "I1", "no submit accounts for", "b")


def test_i1_a_row_that_a_refused_submit_made() -> None:
    assert_convicts(Scene().submit(outcome="fail").cancel().rest(), "I1", "was refused")


def test_i1_a_row_that_nobody_asked_for() -> None:
    evidence = Scene().submit("b").submit().cancel().cancel("b").rest()
    del evidence.history[1]

    assert_convicts(evidence, "I1", "no submit accounts for")


def test_i1_a_turn_in_a_session_that_nobody_named() -> None:
    evidence = answered().rest()
    amend(evidence.history, lambda call: call.op == "submit", session="other")

    assert_convicts(evidence, "I1", "stands in s")


def test_i2_a_generation_that_ended_twice() -> None:
    evidence = answered().rest()
    evidence.audit.append(replace(evidence.audit[-1], n=9, at=evidence.audit[-1].at + 0.01))

    assert_convicts(evidence, "I2", "ended a second time")


def test_i2_a_turn_that_was_changed_after_its_end() -> None:
    evidence = answered().rest()
    last = evidence.audit[-1]
    evidence.audit.append(replace(last, before="SUCCEEDED", after="FAILED", fence_before=last.fence))

    assert_convicts(evidence, "I2", "SUCCEEDED of generation 1 was changed to FAILED")


def test_i2_a_redrive_within_the_same_generation() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").dead_letter().redrive().cancel().rest()
    amend(evidence.audit, lambda change: change.before == "FAILED", generation=1)

    assert_convicts(evidence, "I2", "FAILED of generation 1 was changed to PENDING")


def test_i2_a_row_that_is_not_what_its_last_change_made_it() -> None:
    evidence = answered().rest()
    amend(evidence.turns, lambda row: True, status="FAILED")

    assert_convicts(evidence, "I2", "the row is ('FAILED'")


def test_i2_a_row_without_a_birth() -> None:
    evidence = answered().rest()
    evidence.audit.clear()

    assert_convicts(evidence, "I2", "no record")


def test_i2_a_worker_that_reports_a_settlement_nobody_made() -> None:
    evidence = answered().log("turn.succeeded").log("turn.succeeded").rest()

    assert_convicts(evidence, "I2", "logged turn.succeeded 2 times, and it happened 1 times")


def test_i2_a_worker_that_believes_itself_superseded_after_its_own_settlement() -> None:
    assert_convicts(answered().log("turn.superseded").rest(), "I2", "turn.superseded 1 times, and it happened 0 times")


def test_i3_two_replies() -> None:
    evidence = answered().rest()
    evidence.messages.append(replace(evidence.messages[-1], ordinal=2))

    assert_convicts(evidence, "I3", "SUCCEEDED and has 2 replies")


def test_i3_a_reply_that_is_missing() -> None:
    evidence = answered().rest()
    del evidence.messages[-1]

    assert_convicts(evidence, "I3", "SUCCEEDED and has 0 replies")


def test_i3_a_reply_of_a_cancelled_turn() -> None:
    evidence = Scene().submit().cancel().rest()
    evidence.messages.append(replace(evidence.messages[0], ordinal=1, role="assistant"))

    assert_convicts(evidence, "I3", "CANCELED and has 1 replies")


def test_i3_a_reply_that_a_superseded_worker_wrote_under_its_successor() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    amend(evidence.messages, lambda said: said.role == "assistant", content={"turn": "a", "fence": 1})

    assert_convicts(evidence, "I3", "settled under fence 2 with the reply that fence 1 had made")


def test_i3_a_reply_of_another_turn() -> None:
    evidence = answered().rest()
    amend(evidence.messages, lambda said: said.role == "assistant", content={"turn": "b", "fence": 1})

    assert_convicts(evidence, "I3", "has the reply of turn b")


def test_i3_two_attempts_that_succeeded() -> None:
    evidence = answered().rest()
    evidence.attempts.append(replace(evidence.attempts[-1], fence=2))

    assert_convicts(evidence, "I3", "has 2 attempts that succeeded")


def test_i3_an_attempt_record_of_another_claim() -> None:
    evidence = Scene().submit().claim().take_over().settle().rest()
    amend(evidence.attempts, lambda attempt: attempt.outcome == "succeeded", fence=1)

    assert_convicts(evidence, "I3", "its attempt record says fence 1")


def test_i3_a_success_whose_handler_never_began() -> None:
    evidence = Scene().submit().claim(runs=False).settle().submit("b").claim("b").settle("b").rest()

    assert_convicts(evidence, "I3", "whose handler never began")


# --- inputs that were merged


def test_i1_a_merged_input_that_is_not_there() -> None:
    evidence = Scene().submit().merge(content="and").claim().run().settle().rest()
    evidence.messages[:] = [entry for entry in evidence.messages if entry.content != "and"]

    assert_convicts(evidence, "I1", 'was told of the input "and" and does not have it')


def test_i1_a_merged_input_that_stands_twice() -> None:
    evidence = Scene().submit().merge(content="and").merge(content="and").claim().run().settle().rest()
    del evidence.history[-1]

    assert_convicts(evidence, "I1", 'has the input "and" that nobody was told of')


def test_i1_a_merged_input_that_its_handler_was_not_given() -> None:
    evidence = Scene().submit().merge(content="and").claim(inputs=1).run().settle().rest()

    assert_convicts(evidence, "I1", "has 2 inputs, of which its handler was given [1]")
