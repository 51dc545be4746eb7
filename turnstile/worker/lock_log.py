"""What is told of session locks: a log line for each attempt and each release, and their metrics (L6, L7)."""

import time

from turnstile.telemetry.metrics import LOCK_ACQUISITIONS, LOCK_HOLD, LOCK_WAIT
from turnstile.telemetry.own_log import log
from turnstile.worker.session_lock import Guard, Release
from turnstile.worker.session_run import SessionRun


def report_lock(queue: str, key: str, lease_seconds: float, guard: Guard, seconds: float) -> None:
    """`seconds`: how long the attempt took. The line's `worker_id` is the owner, and the lease the key's time to live (M9)."""
    log.info("session.lock", key=key, ttl_seconds=lease_seconds, result=guard.result, seconds=round(seconds, 4))
    if guard is Guard.FOREIGN:
        hint = "no worker has set this lock: find out who writes to Redis, and delete the key"
        log.warning("session.lock_foreign", key=key, hint=hint)
    LOCK_ACQUISITIONS.add(1, queue, guard.result)
    # Of the others, some did not call Redis: in a drain they would hide that it is slow.
    if guard is Guard.LOCKED:
        LOCK_WAIT.observe(seconds, queue)


def report_unlock(queue: str, released: Release, run: SessionRun) -> None:
    """Of a release by a run that held the lock; it may hold it still."""
    held_seconds = time.monotonic() - run.started_at
    log.info("session.unlock", result=released.value, held_seconds=round(held_seconds, 4), turns=run.turns)
    if released is not Release.LOOK_AGAIN:
        LOCK_HOLD.observe(held_seconds, queue)
