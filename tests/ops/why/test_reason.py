"""Each reason in words, whole: its headline, the evidence, and the commands that would move the turn."""

from dataclasses import replace
from inspect import cleandoc
from typing import Any

import pytest

from tests.ops.why.seen import (
    ERASURE,
    FAILED,
    HEAD,
    LIMIT,
    LOCK,
    NOW,
    PAUSE,
    ROW_LOCK,
    TERMS,
    TURN,
    ago,
    last_attempt,
    running_turn,
    seen_queue,
    seen_turn,
    seen_worker,
    wait_facts,
)
from turnstile.ops.why.answer import Answer, as_document, as_lines
from turnstile.ops.why.decision import decide
from turnstile.ops.why.reason import Code, Reason
from turnstile.ops.why.turn_state import AT_REST, ended
from turnstile.ops.why.wait_facts import MAX_OLDER_TURNS, OpenChild, SeenHalt, SeenTurn
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

LATER = ago(-9)
FAILURE = {"status": TurnStatus.FAILED, "finished_at": ago(60), "error_class": "E", "error": "a\nb"}
HALT = SeenHalt(turn_id=FAILED, error_class="E", error="no such model", since=ago(300))
CHILDREN = tuple(OpenChild(id=HEAD, session_id=f"c{number}", status=TurnStatus.PENDING) for number in range(7))
CRASHED = seen_worker(most_crashes=1)
FULL = seen_worker(running=4, running_of_tenant=3, busy=4)
LOST = running_turn(lease_until=ago(9))
RETRIED = last_attempt(AttemptOutcome.RETRIED, error_class="E", error="a\nb")
SNOOZED = last_attempt(AttemptOutcome.SNOOZED, error="busy")
NAMES = {TURN: "TURN", HEAD: "HEAD", FAILED: "HALTING"}


def why(turn: SeenTurn | None = None, **facts: Any) -> Reason:
    return decide(wait_facts(turn, **facts), TERMS)


def answer(reason: Reason, turn: SeenTurn | None = None) -> Answer:
    return Answer(tenant_id="t", session_id="s", turn_id=TURN, turn=turn or seen_turn(), reason=reason, at=NOW)


TEXTS = {
    "failed": (
        why(seen_turn(**FAILURE), head=None),
        """
        It has ended: FAILED at 2026-11-21 08:59:00Z (1m ago).
          error: E: a
        to move it: turnstile redrive --turn TURN
        """,
    ),
    "ended, in the archive": (
        ended(seen_turn(**FAILURE), None),
        """
        It has ended: FAILED at 2026-11-21 08:59:00Z.
          error: E: a
          it is in the archive, and can't run again
        """,
    ),
    "at-rest": (
        AT_REST,
        """
        The session has no open turn; its turns are in the archive.
        """,
    ),
    "erasing": (
        why(erasure=ERASURE),
        """
        The session is being erased: ann@desk asked for it at 2026-11-21 08:59:30Z (30s ago).
          relays go on with it until nothing of before is left; no turn of the session begins until then
          it waits for turns that run, for five seconds after the end of each, and for Redis
        to move it: turnstile erase --tenant t --session s
        """,
    ),
    "halted": (
        why(halt=HALT),
        """
        The FAILED turn HALTING has halted the session since 2026-11-21 08:55:00Z (5m ago).
          its error: E: no such model
          no turn of the session begins until an operator decides
        to move it: turnstile retry HALTING
        or:         turnstile skip HALTING
        """,
    ),
    "behind": (
        why(head=running_turn(id=HEAD, seq=1)),
        """
        It waits for an earlier turn of its session: HEAD, seq 1, RUNNING. Of that turn:
          It runs in worker w since 2026-11-21 08:59:50Z (10s ago).
          its lease is valid until 2026-11-21 09:00:20Z (in 20s)
          its worker's last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
        to move it: turnstile cancel HEAD
        """,
    ),
    "running": (
        why(running_turn(crashes=1, hand_backs=3)),
        """
        It runs in worker w since 2026-11-21 08:59:50Z (10s ago).
          its lease is valid until 2026-11-21 09:00:20Z (in 20s)
          its worker's last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
          1 worker died while running it; 2 more, and it is FAILED as crash_loop
          hand-backs: 3; 20 in a row make it FAILED (shutdown_loop)
        to stop it: turnstile cancel TURN
        """,
    ),
    "running, asked to stop, and little is known": (
        why(running_turn(queue="elsewhere", crashes=2, cancel_requested_at=ago(1)), queue=seen_queue(seen_worker("b"))),
        """
        It runs in worker w since 2026-11-21 08:59:50Z (10s ago).
          its lease is valid until 2026-11-21 09:00:20Z (in 20s)
          no heartbeat of its worker is on record
          2 workers died while running it; a few more, and it is FAILED as crash_loop
          it was asked to stop at 2026-11-21 08:59:59Z (1.0s ago)
        """,
    ),
    "running, blocked": (
        why(running_turn(), queue=seen_queue(seen_worker(blocked_for_seconds=34.0, blocked_by=HEAD))),
        """
        It runs in worker w, whose event loop turn HEAD blocks since 2026-11-21 08:59:21Z (39s ago).
          its lease is valid until 2026-11-21 09:00:20Z (in 20s)
          its worker's last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
          no turn of that worker goes on, and none hears of a cancel, before the block ends
          to end it, stop the worker, process 7 on h: its turns begin again in others
        """,
    ),
    "lost": (
        why(LOST),
        """
        Its lease ran out at 2026-11-21 08:59:51Z (9.0s ago): worker w is lost, or can't renew the lease.
          it began at 2026-11-21 08:59:50Z (10s ago)
          its worker's last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
          no relay has marked it as lost yet: a relay waits until renewals have worked for the length of a lease
        to move it: turnstile relay
        """,
    ),
    "lost, on a paused queue": (
        why(LOST, queue=seen_queue(pause=PAUSE)),
        """
        Its lease ran out at 2026-11-21 08:59:51Z (9.0s ago): worker w is lost, or can't renew the lease.
          it began at 2026-11-21 08:59:50Z (10s ago)
          its worker's last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
          no relay has marked it as lost yet: a relay waits until renewals have worked for the length of a lease
          no worker can take it over. ann@desk has paused its queue turns since 2026-11-21 09:00:00Z (in 0ms).
        to move it: turnstile queues resume turns
        """,
    ),
    "joining": (
        why(seen_turn(execute_at=LATER, joining=[HEAD] * 8, open_children=CHILDREN)),
        """
        It waits for 7 of its 8 child turns, at most until 2026-11-21 09:00:09Z (in 9.0s).
          HEAD, session c0: PENDING
          HEAD, session c1: PENDING
          HEAD, session c2: PENDING
          HEAD, session c3: PENDING
          HEAD, session c4: PENDING
          and 2 more
        to move it: turnstile why HEAD
        """,
    ),
    "joining, and all children have ended": (
        why(seen_turn(execute_at=LATER, joining=[HEAD])),
        """
        It waits for 0 of its 1 child turn, at most until 2026-11-21 09:00:09Z (in 9.0s).
          they have ended: a relay notices it within seconds
        to move it: turnstile relay
        """,
    ),
    "retry": (
        why(seen_turn(execute_at=LATER, attempt=2, last_attempt=RETRIED)),
        """
        It waits for its retry until 2026-11-21 09:00:09Z (in 9.0s).
          attempt 2 failed: E: a
        to move it: turnstile wake TURN
        """,
    ),
    "snoozed": (
        why(seen_turn(execute_at=LATER, last_attempt=SNOOZED)),
        """
        Its handler has snoozed it until 2026-11-21 09:00:09Z (in 9.0s).
          its reason: busy
        to move it: turnstile wake TURN
        """,
    ),
    "scheduled": (
        why(seen_turn(seq=None, execute_at=ago(-86_400)), head=None),
        """
        It is scheduled, and waits until 2026-11-22 09:00:00Z (in 1d).
        to move it: turnstile wake TURN
        """,
    ),
    "paused": (
        why(queue=seen_queue(pause=PAUSE)),
        """
        ann@desk has paused its queue turns since 2026-11-21 09:00:00Z (in 0ms).
        to move it: turnstile queues resume turns
        """,
    ),
    "no-worker": (
        why(queue=seen_queue(seen_worker(draining=True))),
        """
        No worker of its queue turns takes turns.
          the last heartbeat was at 2026-11-21 08:59:55Z (5.0s ago)
          workers that are draining: 1; they end their turns and begin no other
        to move it: turnstile worker --queue turns
        """,
    ),
    "locked": (
        why(row_lock=ROW_LOCK),
        """
        Another transaction keeps its row locked, or its session's: no worker can begin it.
          process 77 of Postgres: user ann, application psql, open since 2026-11-21 09:00:00Z (in 0ms)
        to move it: psql "$OWNER_URL" -c "SELECT pg_terminate_backend(77)"
        """,
    ),
    "quarantined": (
        why(seen_turn(crashes=2), queue=seen_queue(CRASHED)),
        """
        It waits its turn, to run alone: a turn with a crash on record runs in each worker of its queue.
          crashes on its record: 2
        """,
    ),
    "lock-without-row": (
        why(lock=LOCK),
        """
        Worker w has the session's lock, and no turn of the session is RUNNING.
          the lock lock:session:{t/s} expires in 12s
          the worker is alive: it claims the turn in a moment, or releases the lock
        """,
    ),
    "not-sent": (
        why(seen_turn(send_at=ago(90))),
        """
        It is due, and no relay has sent its wake-up since 2026-11-21 08:58:30Z (1m30s ago).
          workers of its queue turns that are alive: 1, each with a relay unless it has --no-relay
          the log of a relay that SQS refuses says relay.not_sent
        to move it: turnstile relay
        or:         turnstile wake TURN
        """,
    ),
    "limited": (
        why(limits=(LIMIT,), queue=seen_queue(FULL)),
        """
        The limit models of large has no free place: 2 of 2 are in use.
          sessions that wait for it: 5; the one that has waited longest is next
        to move it: turnstile limits list
        """,
    ),
    "tenant-full": (
        why(queue=seen_queue(FULL)),
        """
        Its tenant t uses its whole share of the slots in each worker.
          turns of this tenant that run: 3, in 1 worker
          TURNSTILE_TENANT_SLOTS is fair for this command; the workers may have another value
          for a minute after another tenant's turn, a worker keeps slots free
        to move it: turnstile list --status running --tenant t
        """,
    ),
    "slots-busy": (
        why(queue=seen_queue(seen_worker(running=4, busy=4), older_turn_count=MAX_OLDER_TURNS)),
        """
        All slots of its queue's workers are busy: 4 slots in 1 worker.
          turns of its queue that have been due for longer: 1000 or more
        to move it: turnstile worker --queue turns
        or:         turnstile list --status running --queue turns
        """,
    ),
    "sent-in-vain": (
        why(seen_turn(sends=1), queue=seen_queue(older_turn_count=4)),
        """
        It has been due since 2026-11-21 08:59:30Z (30s ago), and 1 wake-up brought no worker.
          a relay sends again at 2026-11-21 09:01:00Z (in 1m)
          turns of its queue that have been due for longer: 4
        to move it: turnstile wake TURN
        """,
    ),
    "not-begun": (
        why(),
        """
        It has been due since 2026-11-21 08:59:30Z (30s ago), and no worker has begun it yet.
          its wake-up was sent, unless SQS refused it: a relay sends it again at 2026-11-21 09:01:00Z (in 1m)
          turns of its queue that have been due for longer: 0
        to move it: turnstile wake TURN
        """,
    ),
    "not-begun, owed": (
        why(seen_turn(send_at=ago(4))),
        """
        It has been due since 2026-11-21 08:59:30Z (30s ago), and no worker has begun it yet.
          its wake-up has been owed since 2026-11-21 08:59:56Z (4.0s ago)
          turns of its queue that have been due for longer: 0
        to move it: turnstile wake TURN
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_a_reason_says_its_evidence_and_the_commands(case: str) -> None:
    reason, text = TEXTS[case]

    found = "\n".join(as_lines(answer(reason))[1:])

    for turn_id, name in NAMES.items():
        found = found.replace(str(turn_id), name)
    assert found == cleandoc(text)


def test_every_reason_of_the_table_has_its_text_here() -> None:
    assert {reason.code for reason, _ in TEXTS.values()} == {*Code}


def test_a_turn_that_has_not_begun_says_how_long_it_has_waited() -> None:
    waiting, begun = [as_lines(answer(AT_REST, seen_turn(first_started_at=at)))[0] for at in (None, ago(1))]

    assert waiting == f"turn {TURN}, session s of tenant t, seq 2, queue turns: PENDING, has waited for 30s"
    assert begun.endswith("PENDING")


def test_a_document_names_each_reason_and_what_is_inside_it() -> None:
    behind = why(head=replace(LOST, id=HEAD, seq=1), queue=seen_queue(pause=PAUSE))

    reason = as_document(answer(behind))["reason"]

    assert (reason["code"], reason["head"]["id"]) == ("behind", HEAD)
    assert (reason["reason"]["code"], reason["reason"]["obstacle"]["code"]) == ("lost", "paused")
