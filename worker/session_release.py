"""What a worker leaves to others: a session's head is owed a wake-up, also where somebody sits on the head's row.

Such a row can't be made due. To wait for it takes a connection of the pool, again and again, for as long as an operator in a psql
is at lunch: a few sessions of one tenant had all of them, and a few dozen all slots. So there the queue keeps the wake-up: the
message that led here is given back or, where that is deleted by now, sent anew. With SQS away as well the row's net is left.
"""

import random
from functools import partial

import structlog

from turnstile.backends.backoff import full_jitter
from turnstile.backends.postgres.database import Database
from turnstile.statements.head import WAKE_HEAD_UNLESS_HELD
from turnstile.statements.locked_rows import stays_held
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.database_retry import Outlast
from turnstile.worker.delivery import Delivery
from turnstile.worker.dependencies import Workbench
from turnstile.worker.session_run import Hold

BACK_BASE_SECONDS = 2.0
BACK_CAP_SECONDS = 30.0
"""The longer it lasts, the rarer: each visit takes a slot for a second and a half, and after a thousand receives SQS moves a
message to the DLQ."""

log = structlog.get_logger("turnstile.worker")


class Leaving:
    """The end of the messages whose sessions are left with something due."""

    def __init__(self, with_: Workbench, delivery: Delivery, outlast: Outlast) -> None:
        self._database: Database = with_.database
        self._heartbeat = with_.heartbeat
        self._message_stays = with_.message_stays
        self._nudge_relay = with_.nudge_relay
        self._delivery = delivery
        self._outlast = outlast

    async def owe_wake_up(self, hold: Hold) -> None:
        """Makes the session's head due; or notes on the hold that somebody sits on its row."""
        hold.head_held = await stays_held(lambda: self._outlast(partial(self._wake_head, hold.wake_up)))

    async def leave_to_others(self, hold: Hold) -> None:
        """What is due here is owed a wake-up: this hold must end, and somebody waits."""
        await self.owe_wake_up(hold)
        self._nudge_relay()

    async def leave_message(self, hold: Hold) -> None:
        """Instead of its deletion, where the head could not be made due. After the unlock: it would be turned away."""
        if hold.message is None:
            # No message led here: the row is found again, as it was found before.
            return
        if hold.deletion is None:
            await self._take_from_heartbeat(hold)
            await self.keep(hold.message)
        else:
            # On a FIFO queue it went with the first claim, on others with the first settle.
            log.warning("session.head_held", again_in_seconds=0)
            await hold.deletion
            await self._delivery.send_anew(hold.wake_up, hold.message)

    async def come_again(self, hold: Hold) -> None:
        """Instead of the deletion of a message whose hold is `unmarked`. After some seconds it finds what is due by then."""
        if hold.message is None:
            return
        await self._take_from_heartbeat(hold)
        seconds = _seconds_until_next(hold.message)
        log.info("session.unmarked", again_in_seconds=int(seconds))
        await self._give_back(hold.message, seconds)

    async def keep(self, message: ReceivedMessage) -> None:
        """Leaves the wake-up to the queue: it comes again after some seconds, the later the more often it has come."""
        seconds = _seconds_until_next(message)
        log.warning("session.head_held", again_in_seconds=int(seconds))
        await self._give_back(message, seconds)

    async def _take_from_heartbeat(self, hold: Hold) -> None:
        hold.kept.message = None
        # The heartbeat may have asked SQS to extend it just now: done last, that would hide for minutes what is given back.
        await self._heartbeat.finish_extension()

    async def _give_back(self, message: ReceivedMessage, seconds: float) -> None:
        self._message_stays(message)
        await self._delivery.give_back(message, seconds)

    async def _wake_head(self, wake_up: WakeUp) -> bool:
        session = {"tenant": wake_up.tenant_id, "session": wake_up.session_id}
        [head] = await self._database.fetch(WAKE_HEAD_UNLESS_HELD, session)
        return bool(head["held"])


def _seconds_until_next(message: ReceivedMessage) -> float:
    jitter = random.uniform(0.5, 1)  # noqa: S311 - not a secret
    return full_jitter(message.receive_count, jitter, BACK_BASE_SECONDS, BACK_CAP_SECONDS)
