"""Bugs in the SQL and Lua: statements in which one condition was forgotten."""

from typing import Any

import turnstile.relay.loop
import turnstile.relay.wake_ups_and_dead_letters
import turnstile.statements.cancel
import turnstile.statements.claim
import turnstile.statements.revive
import turnstile.statements.settle
import turnstile.worker.session_lock
from tests.proof.chaos.supervisor import pause
from tests.proof.planted_bugs.patching import alter, instead_of, replace
from tests.proof.planted_bugs.planted_bug import planted


# Long handlers: the sleeper must wake while its successor is still at work.
@planted(
    "I3", "worker-frozen", "worker-cut-off-from-postgres", sleep_seconds=(2.0, 4.0), seconds=12.0, bound_seconds=30.0
)
def settle_without_fence() -> None:
    """A stalled worker settles its successor's run."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("WHERE t.fence = s.fence AND ", "WHERE "),
        ("WHERE t.id = ANY (ARRAY[v.id]) AND t.fence = v.fence AND ", "WHERE t.id = ANY (ARRAY[v.id]) AND "),
    )


@planted("I5")
def claim_without_head_test() -> None:
    """Any due turn of a session may be claimed."""
    alter(
        turnstile.statements.claim,
        "CLAIM",
        ("AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')\n     ORDER BY h.seq LIMIT 1",
         "AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')\n     ORDER BY h.seq DESC LIMIT 1"),
    )  # fmt: skip


@planted("I6", "redis-flushed", "lock-answer-lost")
def claim_without_lease_test() -> None:
    """A turn that is RUNNING is taken over although its lease is good."""
    alter(turnstile.statements.claim, "CLAIM", ("t.lease_until < now() AND t.send_at IS NOT NULL", "true"), times=2)
    alter(turnstile.statements.claim, "CLAIM", ("<= h.most_crashes", "IS NOT NULL"))


@planted("I7", "worker-sigkill")
def takeover_charged_twice() -> None:
    """A turn is charged two crashes for one lost worker, and ends long before its budget."""
    alter(turnstile.statements.claim, "CLAIM", ("crashes = t.crashes + (due.was = 'RUNNING')::int,",
                                 "crashes = t.crashes + 2 * (due.was = 'RUNNING')::int,"))  # fmt: skip


@planted("I7", "worker-sigkill")
def attempt_counted_at_settle() -> None:
    """An attempt is charged at the settle, so one that kills its worker is never charged."""
    alter(turnstile.statements.claim, "CLAIM", ("attempt = t.attempt + (due.verdict = 'RUNNING')::int,", ""))
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("attempt = t.attempt - (v.refund AND v.final = 'PENDING')::int,",
         "attempt = t.attempt + 1 - (v.refund AND v.final = 'PENDING')::int,"),
        ("SET status = 'RUNNING', attempt = t.attempt + 1, ", "SET status = 'RUNNING', "),
    )  # fmt: skip


# Only a handler that ends before it hears of its cancel leaves the last word to the settle: hints are lost with
# Redis, and the next heartbeat comes after half a second.
@planted(
    "I13",
    "redis-unreachable",
    cancels=0.4,
    sleep_seconds=(0.15, 0.45),
    clients=14,
    pause_seconds=0.05,
    seconds=14.0,
    lanes=1,
)
def cancel_loses_to_completion() -> None:
    """The settle does not look whether a cancel was acknowledged."""
    alter(turnstile.statements.settle, "SETTLE", ("t.cancel_requested_at IS NOT NULL AS canceled", "false AS canceled"))


@planted("I13", "relay-sigkill", cancels=0.4, sleep_seconds=(0.5, 2.0))
def cancel_ignores_running() -> None:
    """A running turn's cancel is acknowledged and forgotten."""
    alter(
        turnstile.statements.cancel, "REQUEST_CANCEL", ("('' || t.status) = 'RUNNING'", "('' || t.status) = 'PENDING'")
    )


@planted("I9", "relay-sigkill")
def dead_letter_not_owed() -> None:
    """FAILED is committed without the `send_at` that owes its dead letter."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("WHEN v.final = 'FAILED' AND v.dead_letter AND NOT %(halt)s THEN clock_timestamp() END", "END"),
    )


# Not a calm run, in which nothing fails.
@planted("I5", "redis-flushed", halt=True, bound_seconds=30.0)
def next_ignores_the_halt() -> None:
    """The settle that halts a session claims its next turn all the same."""
    alter(turnstile.statements.settle, "SETTLE", (" AND NOT (%(halt)s AND d.status = 'FAILED')\n", "\n"))


@planted("I3", "relay-sigkill")
def reply_of_every_outcome() -> None:
    """A reply is written to the history whatever the turn came to."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("'assistant', reply\n      FROM done WHERE status = 'SUCCEEDED'", "'assistant', reply\n      FROM done"),
    )


@planted("I15", "sqs-down")
def relay_stamps_before_it_sends() -> None:
    """The relay counts a row as sent as soon as it has taken it."""
    alter(
        turnstile.relay.loop,
        "TAKE_DUE",
        ("THEN clock_timestamp() + make_interval(secs => %(stamp)s)",
         "THEN clock_timestamp() + make_interval(secs => 3600 * (t.status = 'PENDING')::int + %(stamp)s)"),
    )  # fmt: skip

    async def keep(self: Any, rows: Any) -> None:
        pass

    replace(turnstile.relay.wake_ups_and_dead_letters.RelaySends, "_give_back", lambda _: keep)


@planted("I18", "two-redrives")
def redrive_without_compare_and_set() -> None:
    """A redrive revives a row whatever its status is by now."""
    alter(
        turnstile.statements.revive,
        "REVIVE",
        ("WHERE ('' || t.status) = 'FAILED' AND t.generation = w.generation AND ",
         "WHERE ('' || t.status) IN ('FAILED', 'PENDING') AND "),
        ("WHERE t.id = ANY (ARRAY[n.id]) AND ('' || t.status) = 'FAILED'", "WHERE t.id = ANY (ARRAY[n.id])"),
    )  # fmt: skip


# The thawed worker must have had a lock, and its successor must still have it.
@planted("I14", "worker-frozen", lanes=3, speeches=0.5, seconds=15.0, bound_seconds=60.0)
def blind_delete_of_the_lock() -> None:
    """A lock is deleted without a check of its owner."""
    alter(
        turnstile.worker.session_lock, "RELEASE", ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end\n", "")
    )


# No later turn of the session must bring it to light: many short sessions.
@planted("I15", turns_a_session=2, clients=10, pause_seconds=0.05)
def waiting_mark_never_read() -> None:
    """The waiting mark is never read: the message that was turned away is forgotten."""
    alter(
        turnstile.worker.session_lock, "RELEASE", ("redis.call('DEL', KEYS[2]) == 1", "redis.call('DEL', KEYS[2]) == 2")
    )

    # It shows if a turn comes between the last settle of a session run and its unlock, usually a millisecond.
    @instead_of(turnstile.worker.session_lock.SessionLock, "release")
    async def release(original: Any, self: Any, lock: Any) -> Any:
        await pause(0.4)
        return await original(self, lock)
