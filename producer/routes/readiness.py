"""Readiness checks: whether this process can accept turns (Postgres), and whether their wake-ups leave at once (SQS).

An SQS outage does not make the process unready: it still accepts turns, and the relay sends the wake-ups later. Removing every
API task from the load balancer would turn a delay into an outage.
"""

import asyncio
import math
import time
from enum import StrEnum
from typing import Literal

import structlog
from pydantic import BaseModel

from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.submit.wake_ups import WakeUpSending

PATIENCE_SECONDS = 2.0
KEPT_SECONDS = 1.0
"""How long a result of the database check is reused. The route needs no key, so any client may call it at any rate."""

log = structlog.get_logger("turnstile.api")


class QueueHealth(StrEnum):
    """How a declared queue looks from here."""

    OK = "ok"
    """The queue exists, and the last sends succeeded."""
    AWAY = "away"
    """SQS does not respond in time, or sends to the queue fail."""
    MISSING = "missing"
    """SQS has no such queue: an operator must create it."""


class Readiness(BaseModel):
    """The body of a 200 of /readyz."""

    status: Literal["ready"] = "ready"
    database: Literal["ok"] = "ok"
    queues: dict[str, QueueHealth]


class DatabaseProbe:
    """Checks whether Postgres responds, at most once a second. All callers share the result."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: asyncio.Task[None] | None = None
        self._asked_at = -math.inf

    async def check(self) -> None:
        """Raises DatabaseUnavailableError if Postgres does not respond in time, or did not within the last second."""
        if self._asked is None or (self._asked.done() and time.monotonic() - self._asked_at >= KEPT_SECONDS):
            self._asked = asyncio.create_task(_ping(self._database))
            self._asked_at = time.monotonic()
        # Shielded: if this caller is cancelled, others still wait for the result.
        await asyncio.shield(self._asked)


async def _ping(database: Database) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await database.ping()
    except TimeoutError:
        raise DatabaseUnavailableError(f"no answer within {PATIENCE_SECONDS:g} s") from None


async def check_queues(queues: MessageQueues, sending: WakeUpSending, names: list[str]) -> dict[str, QueueHealth]:
    """The health of all declared queues. Cheap, because a queue that was found once is not looked up again."""
    found = await asyncio.gather(*(_check_queue(queues, sending, name) for name in names))
    return dict(zip(names, found, strict=True))


async def report_queues(queues: MessageQueues, sending: WakeUpSending, names: list[str]) -> None:
    """Logs, at the start, which queues are missing or unreachable. Raises nothing, because no caller awaits it."""
    try:
        found = await check_queues(queues, sending, names)
    except Exception:
        log.exception("api.queues_not_checked")
        return
    for name, health in found.items():
        match health:
            case QueueHealth.OK:
                pass
            case QueueHealth.AWAY:
                log.warning("queue.sqs_away", queue=name)
            case QueueHealth.MISSING:
                log.error("queue.missing", queue=name)


async def _check_queue(queues: MessageQueues, sending: WakeUpSending, name: str) -> QueueHealth:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await queues.find(name)
    except UnknownQueueError:
        return QueueHealth.MISSING
    except (QueueUnavailableError, TimeoutError):
        return QueueHealth.AWAY
    return QueueHealth.AWAY if sending.is_struggling(name) else QueueHealth.OK
