"""Session release: a session whose run ends while its head is due gets a wake-up, even if the head's row is locked.

A row that another transaction has locked can't be made due. Waiting would tie up a pool connection for as long as that
transaction stays open; a handful of such sessions would exhaust the pool. So the queue keeps the wake-up: the message is given
back or, if it is deleted already, sent again. If SQS is away too, the relay sends it at the row's `send_at`.
"""

import random
from functools import partial

import structlog

from turnstile.backends.backoff import full_jitter
from turnstile.backends.postgres.database import Database
from turnstile.statements.head import WAKE_UNLOCKED_HEAD
from turnstile.statements.locked_rows import stays_locked
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.database_retry import Outlast
from turnstile.worker.delivery import Delivery
from turnstile.worker.dependencies import WorkerDeps
from turnstile.worker.session_run import SessionRun

BACK_BASE_SECONDS = 2.0
BACK_CAP_SECONDS = 30.0
"""The longest wait. It doubles with each receive up to this: each visit takes a slot for a second and a half, and after a
thousand receives SQS moves the message to the DLQ."""

log = structlog.get_logger("turnstile.worker")


class SessionRelease:
    """Ends the runs of sessions that still have something due."""

    def __init__(self, deps: WorkerDeps, delivery: Delivery, outlast: Outlast) -> None:
        self._database: Database = deps.database
        self._heartbeat = deps.heartbeat
        self._message_stays = deps.message_stays
        self._nudge_relay = deps.nudge_relay
        self._delivery = delivery
        self._outlast = outlast

    async def owe_wake_up(self, run: SessionRun) -> None:
        """Makes the session's head due; if its row stays locked, sets `head_locked`."""
        run.head_locked = await stays_locked(lambda: self._outlast(partial(self._wake_head, run.wake_up)))

    async def leave_to_others(self, run: SessionRun) -> None:
        """Makes the session's head due, and nudges the relay to send its wake-up now: this run must end, and a client waits."""
        await self.owe_wake_up(run)
        self._nudge_relay()

    async def leave_message(self, run: SessionRun) -> None:
        """Replaces the deletion if the head could not be made due. Call it after the unlock."""
        if run.message is None:
            # Recovery started this run, and will find the turn again.
            return
        if run.deletion is None:
            await self._take_from_heartbeat(run)
            await self.keep(run.message)
        else:
            # The message is deleted already: after the first claim on a FIFO queue, after the first settle on other queues.
            log.warning("session.head_locked", again_in_seconds=0)
            await run.deletion
            await self._delivery.send_anew(run.wake_up, run.message)

    async def come_again(self, run: SessionRun) -> None:
        """Replaces the deletion if the run is `unmarked`: SQS delivers the message again after some seconds."""
        if run.message is None:
            return
        await self._take_from_heartbeat(run)
        seconds = _seconds_until_next(run.message)
        log.info("session.unmarked", again_in_seconds=int(seconds))
        await self._give_back(run.message, seconds)

    async def keep(self, message: ReceivedMessage) -> None:
        """Leaves the wake-up in the queue: SQS delivers it again after some seconds, later with each receive."""
        seconds = _seconds_until_next(message)
        log.warning("session.head_locked", again_in_seconds=int(seconds))
        await self._give_back(message, seconds)

    async def _take_from_heartbeat(self, run: SessionRun) -> None:
        run.kept.message = None
        # The heartbeat may be extending the message right now: if that call came last, it would hide the message for minutes.
        await self._heartbeat.finish_extension()

    async def _give_back(self, message: ReceivedMessage, seconds: float) -> None:
        self._message_stays(message)
        await self._delivery.give_back(message, seconds)

    async def _wake_head(self, wake_up: WakeUp) -> bool:
        session = {"tenant": wake_up.tenant_id, "session": wake_up.session_id}
        [head] = await self._database.fetch(WAKE_UNLOCKED_HEAD, session)
        return bool(head["locked"])


def _seconds_until_next(message: ReceivedMessage) -> float:
    jitter = random.uniform(0.5, 1)  # noqa: S311 - not a secret
    return full_jitter(message.receive_count, jitter, BACK_BASE_SECONDS, BACK_CAP_SECONDS)
