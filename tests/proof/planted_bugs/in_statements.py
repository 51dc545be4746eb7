"""Bugs in the SQL and Lua: what a statement would be if somebody had not thought of one thing."""

from collections.abc import Callable
from typing import Any

import turnstile.relay.loop
import turnstile.statements.cancel
import turnstile.statements.claim
import turnstile.statements.redrive
import turnstile.statements.settle
import turnstile.worker.session_lock
from tests.proof.chaos.cast import pause
from tests.proof.planted_bugs.patching import alter, replace


def settle_without_fence() -> None:
    """A stalled worker settles its successor's run."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("WHERE t.fence = s.fence AND ", "WHERE "),
        ("WHERE t.id = ANY (ARRAY[v.id]) AND t.fence = v.fence AND ", "WHERE t.id = ANY (ARRAY[v.id]) AND "),
    )


def claim_without_head_test() -> None:
    """Any due turn of the session will do."""
    alter(
        turnstile.statements.claim,
        "CLAIM",
        ("AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')\n     ORDER BY h.seq LIMIT 1",
         "AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')\n     ORDER BY h.seq DESC LIMIT 1"),
    )  # fmt: skip


def claim_without_lease_test() -> None:
    """A turn that is RUNNING is taken over although its lease is good."""
    alter(turnstile.statements.claim, "CLAIM", ("t.lease_until < now() AND t.send_at IS NOT NULL", "true"), times=2)
    alter(turnstile.statements.claim, "CLAIM", ("<= h.most_crashes", "IS NOT NULL"))


def takeover_charged_twice() -> None:
    """A turn is charged two crashes for one lost worker, and ends long before its budget."""
    alter(turnstile.statements.claim, "CLAIM", ("crashes = t.crashes + (due.was = 'RUNNING')::int,",
                                 "crashes = t.crashes + 2 * (due.was = 'RUNNING')::int,"))  # fmt: skip


def attempt_counted_at_settle() -> None:
    """Charged when it has ended, so that an attempt that kills its worker is never charged."""
    alter(turnstile.statements.claim, "CLAIM", ("attempt = t.attempt + (due.verdict = 'RUNNING')::int,", ""))
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("attempt = t.attempt - (v.refund AND v.final = 'PENDING')::int,",
         "attempt = t.attempt + 1 - (v.refund AND v.final = 'PENDING')::int,"),
        ("SET status = 'RUNNING', attempt = t.attempt + 1, ", "SET status = 'RUNNING', "),
    )  # fmt: skip


def cancel_loses_to_completion() -> None:
    """The settle does not look whether a cancel was acknowledged."""
    alter(turnstile.statements.settle, "SETTLE", ("t.cancel_requested_at IS NOT NULL AS canceled", "false AS canceled"))


def cancel_ignores_running() -> None:
    """A running turn's cancel is acknowledged and forgotten."""
    alter(
        turnstile.statements.cancel, "REQUEST_CANCEL", ("('' || t.status) = 'RUNNING'", "('' || t.status) = 'PENDING'")
    )


def dead_letter_not_owed() -> None:
    """FAILED is committed without the `send_at` that owes its dead letter."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("WHEN v.final = 'FAILED' AND v.dead_letter AND NOT %(halt)s THEN clock_timestamp() END", "END"),
    )


def next_ignores_the_halt() -> None:
    """The settle that halts a session claims its next turn all the same."""
    alter(turnstile.statements.settle, "SETTLE", (" AND NOT (%(halt)s AND d.status = 'FAILED')\n", "\n"))


def reply_of_every_outcome() -> None:
    """A reply is written to the history whatever the turn came to."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("'assistant', reply\n      FROM done WHERE status = 'SUCCEEDED'", "'assistant', reply\n      FROM done"),
    )


def relay_stamps_before_it_sends() -> None:
    """The relay takes a row for sent as soon as it has taken it."""
    alter(
        turnstile.relay.loop,
        "TAKE_DUE",
        ("WHEN t.status <> 'RUNNING' THEN clock_timestamp() + make_interval(secs => %(stamp)s)",
         "WHEN t.status = 'PENDING' THEN clock_timestamp() + make_interval(secs => %(stamp)s + 3600)"),
    )  # fmt: skip


def redrive_without_compare_and_set() -> None:
    """Whatever the row is by now goes back to work."""
    alter(
        turnstile.statements.redrive,
        "REVIVE",
        ("WHERE ('' || t.status) = 'FAILED' AND t.generation = w.generation AND ",
         "WHERE ('' || t.status) IN ('FAILED', 'PENDING') AND "),
        ("WHERE t.id = ANY (ARRAY[n.id]) AND ('' || t.status) = 'FAILED'", "WHERE t.id = ANY (ARRAY[n.id])"),
    )  # fmt: skip


def blind_delete_of_the_lock() -> None:
    """A lock is given back without looking whose it is."""
    alter(
        turnstile.worker.session_lock, "RELEASE", ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end\n", "")
    )


def waiting_mark_never_read() -> None:
    """Whoever was turned away by the lock is forgotten."""
    alter(
        turnstile.worker.session_lock, "RELEASE", ("redis.call('DEL', KEYS[2]) == 1", "redis.call('DEL', KEYS[2]) == 2")
    )

    # Its occasion is a turn that comes between the last settle of a hold and its unlock: a millisecond, if nobody is late.
    def late(original: Callable[..., Any]) -> Callable[..., Any]:
        async def release(self: Any, lock: Any) -> Any:
            await pause(0.4)
            return await original(self, lock)

        return release

    replace(turnstile.worker.session_lock.SessionLock, "release", late)
