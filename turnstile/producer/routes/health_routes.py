"""The routes of health: whether the process is alive, whether it can accept turns (Postgres, its tables), and whether their
wake-ups leave at once (SQS).

An SQS outage does not make the process unready: it still accepts turns, and the relay sends the wake-ups later. Removing every
API task from the load balancer would turn a delay into an outage.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.producer.backend import FoundBackend
from turnstile.producer.routes.openapi import problems
from turnstile.submit.wake_ups import WakeUpSending

PATIENCE_SECONDS = 2.0
MOST_CALLERS = 10_000
"""Calls that share a check of the database."""

health = APIRouter(tags=["health"])


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


@health.head("/healthz", include_in_schema=False)
@health.get("/healthz", summary="Is the process alive?")
async def get_liveness() -> dict[str, str]:
    """Always 200: an outage of Postgres or SQS is not a reason to kill the process."""
    return {"status": "live"}


@health.head("/readyz", include_in_schema=False)
@health.get("/readyz", summary="Can it accept turns?", responses=problems(503))
async def get_readiness(backend: FoundBackend) -> Readiness:
    """200 if the database answers and has the tables of this program. The response shows the state of each queue, which
    does not affect the status."""
    await backend.database_probe(None)
    names = list(backend.settings.queues_by_name)
    return Readiness(queues=await check_queues(backend.queues, backend.sending, names))


def probe_of(database: Database) -> Batcher[None, None]:
    """Checks Postgres and its tables. Raises DatabaseUnavailableError if it does not respond in time, TablesUnfitError if this
    program can't use the tables.

    Concurrent callers share a check, which takes one connection: the route needs no key, so any client may call it at any rate.
    """

    async def ping(callers: Sequence[None]) -> Sequence[None]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await database.ping()
        except TimeoutError:
            raise DatabaseUnavailableError(f"no response within {PATIENCE_SECONDS:g} s") from None
        return callers

    return Batcher(ping, limit=MOST_CALLERS)


async def check_queues(queues: MessageQueues, sending: WakeUpSending, names: list[str]) -> dict[str, QueueHealth]:
    """The health of all declared queues. Cheap, because a queue that was found once is not looked up again."""
    found = await asyncio.gather(*(_check_queue(queues, sending, name) for name in names))
    return dict(zip(names, found, strict=True))


async def _check_queue(queues: MessageQueues, sending: WakeUpSending, name: str) -> QueueHealth:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await queues.find(name)
    except UnknownQueueError:
        return QueueHealth.MISSING
    except (QueueUnavailableError, TimeoutError):
        return QueueHealth.AWAY
    return QueueHealth.AWAY if sending.is_struggling(name) else QueueHealth.OK
