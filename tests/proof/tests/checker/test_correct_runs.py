"""A correct run convicts nobody, whatever happened in it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence, Fault, Life, StreamRead
from tests.proof.tests.checker.scene import ECHO, Scene, lock_of

REJECT_QUIETLY = {"do": "reject", "dead_letter": False}


def answered() -> Evidence:
    return Scene().submit().read().claim().run().settle().read().rest(calm=True)


def retried_until_it_succeeds() -> Evidence:
    scene = Scene().submit().claim().settle(outcome="retried").claim().settle(outcome="retried")
    return scene.claim().settle().rest(calm=True)


def released_and_snoozed_free_of_charge() -> Evidence:
    scene = Scene().submit()
    for outcome in ("released", "snoozed", "released", "snoozed"):
        scene.claim().run(what="cancelled").settle(outcome=outcome)
    return scene.claim().settle().rest(calm=True)


def failed_with_its_dead_letter() -> Evidence:
    return Scene().submit().claim().settle(outcome="failed").dead_letter().rest(calm=True)


def failed_after_its_own_budget() -> Evidence:
    scene = Scene().submit(max_attempts=2).claim().settle(outcome="retried").claim()
    return scene.settle(outcome="failed").dead_letter().rest()


def rejected_without_a_dead_letter() -> Evidence:
    scene = Scene().submit(content=REJECT_QUIETLY).claim()
    return scene.settle(outcome="failed", error_class="Reject").rest()


def taken_over_after_its_lease() -> Evidence:
    return Scene().submit().claim().take_over().settle().rest()


def given_up_as_a_crash_loop() -> Evidence:
    scene = Scene().submit().claim().take_over().take_over().take_over(status="FAILED")
    return scene.dead_letter().rest()


def cancelled_while_its_worker_was_lost() -> Evidence:
    return Scene().submit().claim().cancel().take_over(status="CANCELED").rest()


def canceled_before_it_was_submitted() -> Evidence:
    scene = Scene().ask("cancel", "a", status=None).submit("a", canceled=True, key="turn:a")
    return scene.submit("b").claim("b").run("b").settle("b").rest()


def merged_into_what_waited() -> Evidence:
    scene = (
        Scene()
        .submit()
        .merge(content="and")
        .merge(content="so", key="k")
        .ask("submit", "a", session="s", content="so", key="k")
    )
    scene.ask("submit", "a", session="s", content="no", on_busy="reject", outcome="fail")
    return scene.claim(inputs=3).run().settle().rest()


def perhaps_merged_as_its_client_never_knew() -> Evidence:
    scene = Scene().submit().merge(content="and", outcome="unknown")
    return scene.claim(inputs=2).run().settle().rest()


def redriven_to_the_end_of_its_session() -> Evidence:
    scene = Scene().submit("a").submit("b").claim("a").settle("a", "failed").dead_letter("a")
    scene.claim("b", heard=[]).read("a").redrive("a").settle("b")
    return scene.claim("a", heard=["b"]).read("a").settle("a").read("a").rest()


def redriven_and_swept_while_it_failed_again() -> Evidence:
    scene = Scene().submit().claim().settle(outcome="failed").dead_letter()
    return scene.redrive().claim().settle(outcome="failed").dead_letter().rest()


def cancelled_while_it_waited() -> Evidence:
    return Scene().submit("a").submit("b").cancel("a").read("a").claim("b").settle("b").cancel("b").rest()


def cancelled_while_it_ran() -> Evidence:
    return Scene().submit().claim().cancel().read().run().settle().read().rest()


def retried_at_the_moment_of_its_cancel() -> Evidence:
    scene = Scene().submit().claim().cancel()
    evidence = scene.settle(outcome="retried").rest()
    last = evidence.audit[-1]
    assert (last.before, last.after) == ("RUNNING", "CANCELED")
    return evidence


def scheduled_behind_what_came_later() -> Evidence:
    scene = Scene().submit("later", scheduled=True).submit("now").claim("now", heard=[]).settle("now")
    return scene.place("later").claim("later", heard=["now"]).settle("later").rest()


def cancelled_before_it_fell_due() -> Evidence:
    return Scene().submit("later", scheduled=True).cancel("later").rest()


def two_sessions_at_once() -> Evidence:
    scene = Scene().submit("a", session="s").submit("b", session="r").claim("a").claim("b")
    return scene.settle("b").settle("a").rest()


def a_long_conversation() -> Evidence:
    """The history that a handler is shown holds the last ten replies."""
    scene, told = Scene(), list[str]()
    for number in range(15):
        scene.submit(f"t{number}").claim(f"t{number}", heard=told[-10:]).settle(f"t{number}")
        told.append(f"t{number}")
    return scene.rest()


def submits_whose_answers_were_lost() -> Evidence:
    """One came through and one did not; one was repeated under its key until it was answered."""
    scene = Scene().submit("a", outcome="unknown").ask("submit", "-", outcome="unknown", session="s", content=ECHO)
    scene.submit("b", key="k", outcome="unknown").ask("submit", "b", key="k", session="s", content=ECHO)
    scene.ask("submit", "b", key="k", outcome="fail", session="s", content={"do": "other"})
    scene.ask("submit", "-", key="turn:c", outcome="unknown", session="s", content=ECHO)
    return scene.claim("a").settle("a").claim("b").settle("b").rest()


def a_chosen_id_that_nobody_answered() -> Evidence:
    scene = Scene().submit("c", key="turn:c", outcome="unknown")
    return scene.claim("c").settle("c").rest()


def refused_submits() -> Evidence:
    return Scene().ask("submit", "-", outcome="fail", session="s", content=ECHO).rest()


def messages_deleted_after_the_settle() -> Evidence:
    scene = Scene().submit().wire("send").wire("receive").claim().settle().wire("delete")
    return scene.rest()


def a_duplicate_deleted_while_another_worker_runs() -> Evidence:
    scene = Scene().submit().wire("receive").claim().wire("receive").wire("delete").settle().wire("delete")
    return scene.rest()


def a_fifo_message_deleted_after_the_claim() -> Evidence:
    return Scene().submit().wire("receive").claim().wire("delete").settle().rest(fifo=True)


def a_malformed_message_moved_to_the_dlq() -> Evidence:
    scene = Scene().wire("receive", None, body="?").wire("send", None, dead=True, body="?")
    scene.queue("?", dead=True, **{"turnstile.reason": "malformed: body is not JSON"})
    return scene.wire("delete", None, body="?").rest()


def a_phantom_message_deleted() -> Evidence:
    return Scene().wire("receive", "nobody").wire("delete", "nobody").rest()


def locks_taken_extended_and_given_back() -> Evidence:
    key = lock_of("s")
    scene = Scene().script("w1", ("SET", key, "w1", "NX", "PX", "1500"))
    # Busy: the second comer leaves its mark.
    scene.script(
        "w2",
        ("SET", key, "w2", "NX", "PX", "1500"),
        ("GET", key),
        ("SET", f"{key}:waiting", "1", "PX", "1500"),
    )
    scene.script("w1", ("GET", key), ("PEXPIRE", key, "1500"))
    scene.script("w1", ("GET", key), ("DEL", f"{key}:waiting"), ("PEXPIRE", key, "1500"))
    scene.script("w1", ("GET", key), ("DEL", f"{key}:waiting"), ("DEL", key))
    return scene.script("w2", ("SET", key, "w2", "NX", "PX", "1500")).rest()


def a_lock_retaken_after_a_flush() -> Evidence:
    key = lock_of("s")
    scene = Scene().script("w1", ("SET", key, "w1", "NX", "PX", "1500")).redis("10.0.0.9:1", "FLUSHALL")
    scene.script("w2", ("SET", key, "w2", "NX", "PX", "1500"))
    return scene.script("w2", ("GET", key), ("DEL", f"{key}:waiting"), ("DEL", key)).rest()


def a_lock_taken_after_it_expired() -> Evidence:
    key = lock_of("s")
    scene = Scene().script("w1", ("SET", key, "w1", "NX", "PX", "1500")).wait(1.6)
    return scene.script("w2", ("GET", key), ("SET", key, "w2", "PX", "1500")).rest()


def a_lock_that_changed_hands_out_of_sight() -> Evidence:
    key = lock_of("s")
    scene = Scene().script("w1", ("SET", key, "w1", "NX", "PX", "1500")).redis("gap")
    return scene.script("w2", ("GET", key), ("DEL", f"{key}:waiting"), ("DEL", key)).rest()


def a_worker_killed_and_its_turn_run_again() -> Evidence:
    scene = Scene().submit().claim()
    scene.evidence.lives.append(Life(at=scene.at, role="worker", pid=7, what="ended", code=-9))
    return scene.take_over().settle().log("turn.succeeded").rest()


def a_worker_paused_past_its_lease() -> Evidence:
    scene = Scene().submit().claim()
    scene.evidence.lives.append(Life(at=0.0, role="worker", pid=7, what="started"))
    scene.evidence.faults.append(Fault(at=scene.at, until=scene.at + 3, kind="sigstop worker", target="w"))
    return scene.take_over().settle().log("turn.succeeded").log("turn.superseded").rest()


def a_stream_and_readers_that_resume() -> Evidence:
    scene = Scene().submit().claim().settle()
    metadata: dict[str, Any] = {"id": None, "event": "metadata", "data": "{}"}
    events: list[dict[str, Any]] = [
        {"id": "1-1", "event": "status", "data": '{"status": "RUNNING"}'},
        {"id": "1-2", "event": "delta", "data": '{"text": "1.0 "}'},
        {"id": "1-3", "event": "delta", "data": '{"text": "1.1 "}'},
        {"id": "1-4", "event": "end", "data": '{"status": "SUCCEEDED", "output": {"turn": "a", "fence": 1}}'},
    ]
    scene.evidence.streams += [
        StreamRead(reader="r1", turn_id="a", after=None, events=[metadata, *events], complete=True),
        StreamRead(reader="r2", turn_id="a", after="1-2", events=[metadata, *events[2:]], complete=True),
        StreamRead(reader="r3", turn_id="a", after=None, events=[metadata, *events[:2]], complete=False),
        StreamRead(reader="r4", turn_id="a", after="-1", events=[], complete=False),
    ]
    return scene.rest()


@pytest.mark.parametrize(
    "story",
    [
        answered,
        retried_until_it_succeeds,
        released_and_snoozed_free_of_charge,
        failed_with_its_dead_letter,
        failed_after_its_own_budget,
        rejected_without_a_dead_letter,
        taken_over_after_its_lease,
        given_up_as_a_crash_loop,
        cancelled_while_its_worker_was_lost,
        canceled_before_it_was_submitted,
        merged_into_what_waited,
        perhaps_merged_as_its_client_never_knew,
        redriven_to_the_end_of_its_session,
        redriven_and_swept_while_it_failed_again,
        cancelled_while_it_waited,
        cancelled_while_it_ran,
        retried_at_the_moment_of_its_cancel,
        scheduled_behind_what_came_later,
        cancelled_before_it_fell_due,
        two_sessions_at_once,
        a_long_conversation,
        submits_whose_answers_were_lost,
        a_chosen_id_that_nobody_answered,
        refused_submits,
        messages_deleted_after_the_settle,
        a_duplicate_deleted_while_another_worker_runs,
        a_fifo_message_deleted_after_the_claim,
        a_malformed_message_moved_to_the_dlq,
        a_phantom_message_deleted,
        locks_taken_extended_and_given_back,
        a_lock_retaken_after_a_flush,
        a_lock_taken_after_it_expired,
        a_lock_that_changed_hands_out_of_sight,
        a_worker_killed_and_its_turn_run_again,
        a_worker_paused_past_its_lease,
        a_stream_and_readers_that_resume,
    ],
)
def test_convicts_nobody(story: Callable[[], Evidence]) -> None:
    assert check(story()) == []
