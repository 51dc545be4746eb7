"""Whether this process can do its work: accept turns (Postgres), and whether they go out at once (SQS).

SQS being away does not make it unready: turns are still accepted, and the relay sends them later. Taking every API task
out of the load balancer for it would turn a delay into an outage.
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
"""How long an answer of the database is good for. Without a key anybody may ask, and as often as they like."""

log = structlog.get_logger("turnstile.api")


class QueueHealth(StrEnum):
    """How a declared queue looks from here."""

    OK = "ok"
    """Found, and the last sends went well."""
    AWAY = "away"
    """SQS does not answer, or not in time."""
    MISSING = "missing"
    """SQS answers that there is no such queue: somebody has to make it."""


class Readiness(BaseModel):
    """The body of a 200 of /readyz."""

    status: Literal["ready"] = "ready"
    database: Literal["ok"] = "ok"
    queues: dict[str, QueueHealth]


class DatabaseProbe:
    """Whether Postgres answers, asked once a second at most, for all who want to know."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: asyncio.Task[None] | None = None
        self._asked_at = -math.inf

    async def check(self) -> None:
        """Raises DatabaseUnavailableError if Postgres does not answer soon, or did not a second ago."""
        if self._asked is None or (self._asked.done() and time.monotonic() - self._asked_at >= KEPT_SECONDS):
            self._asked = asyncio.create_task(_ping(self._database))
            self._asked_at = time.monotonic()
        # The one who asked may go, and others still wait for the answer.
        await asyncio.shield(self._asked)


async def _ping(database: Database) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await database.ping()
    except TimeoutError:
        raise DatabaseUnavailableError(f"no answer within {PATIENCE_SECONDS:g} s") from None


async def check_queues(queues: MessageQueues, sending: WakeUpSending, names: list[str]) -> dict[str, QueueHealth]:
    """How all declared queues look. A queue that was found once is not looked up again: this costs next to nothing."""
    found = await asyncio.gather(*(_check_queue(queues, sending, name) for name in names))
    return dict(zip(names, found, strict=True))


async def report_queues(queues: MessageQueues, sending: WakeUpSending, names: list[str]) -> None:
    """Says in the log, at the start, which queues are not as they should be. Raises nothing: nothing waits for it."""
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
