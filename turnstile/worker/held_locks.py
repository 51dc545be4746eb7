"""The session locks that a worker holds now, and for how long.

A hold is measured while it lasts: one that never ends has no `session.unlock`.
"""

from collections.abc import Iterable

from turnstile.telemetry.own_log import log
from turnstile.worker.heartbeat_entry import HeartbeatEntry

LINE_SECONDS = 60.0
"""Time between two lines about one hold."""


def extended_locks(entries: Iterable[HeartbeatEntry], now: float, lease_seconds: float) -> list[HeartbeatEntry]:
    """Those whose lock the heartbeat extends: a worker without Postgres keeps no session locked."""
    return [entry for entry in entries if entry.lock and now - entry.ours_at < lease_seconds]


def longest_hold(entries: Iterable[HeartbeatEntry], now: float, lease_seconds: float) -> float:
    """How long the oldest lock has been held, in seconds; 0 if none is held."""
    held = [entry for entry in extended_locks(entries, now, lease_seconds) if entry.keeps_lock]
    return max((now - entry.held_since for entry in held), default=0.0)


def report_long_holds(locked: Iterable[HeartbeatEntry], now: float, usual_seconds: float) -> None:
    """Logs each lock that has been held for longer than `usual_seconds`, once a minute. Call it with each beat."""
    for entry in locked:
        seconds = now - entry.held_since
        if (
            entry.lock is None
            or not entry.keeps_lock
            or seconds <= usual_seconds
            or now - entry.logged_at < LINE_SECONDS
        ):
            continue
        entry.logged_at = now
        # Read once: the worker's thread sets it to None.
        turn = entry.turn
        log.info("session.held", key=entry.lock.key, held_seconds=round(seconds, 1), **(turn.ids if turn else {}))
