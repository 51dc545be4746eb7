"""The routes of health: whether the process is alive, and whether it can accept turns (Postgres, its tables).

They need no key, so they say yes or no, and nothing more. Operators learn the reason from the log (`api.not_ready`), from
`turnstile doctor` and from `turnstile queues list`.

An SQS outage does not make the process unready: it still accepts turns, and the relay sends the wake-ups later. Removing every
API task from the load balancer would turn a delay into an outage.
"""

import asyncio
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from turnstile.backends.postgres.database import Database
from turnstile.backends.shared_answer import SharedAnswer
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.backend import FoundBackend
from turnstile.producer.http.problems import unavailable
from turnstile.producer.routes.openapi import problems
from turnstile.telemetry.own_log import log

PATIENCE_SECONDS = 2.0

health = APIRouter(tags=["health"])


class Readiness(BaseModel):
    """The body of a 200 of /readyz."""

    status: Literal["ready"] = "ready"


@health.head("/healthz", include_in_schema=False)
@health.get("/healthz", summary="Is the process alive?")
async def get_liveness() -> dict[str, str]:
    """Always 200: an outage of Postgres or SQS is not a reason to kill the process."""
    return {"status": "live"}


@health.head("/readyz", include_in_schema=False)
@health.get("/readyz", summary="Can it accept turns?", responses=problems(503))
async def get_readiness(backend: FoundBackend) -> Readiness:
    """200 if the database answers and has the tables of this program. The answer may be a second old."""
    if not await backend.is_ready():
        raise unavailable("not ready; the log of the API says why")
    return Readiness()


def readiness_of(database: Database) -> SharedAnswer[bool]:
    """Whether Postgres answers in time and has tables that this program can use. The log has a line for each change, with the
    reason."""
    last: str | None = None

    async def ask() -> bool:
        nonlocal last
        reason = await _find_trouble(database)
        if reason is not None and reason != last:
            log.warning("api.not_ready", reason=reason)
        elif reason is None and last is not None:
            log.info("api.ready")
        last = reason
        return reason is None

    return SharedAnswer(ask)


async def _find_trouble(database: Database) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await database.ping()
    except TimeoutError:
        return f"the database does not respond within {PATIENCE_SECONDS:g} s"
    except ConnectionsBusyError:
        # Postgres answers. Without this process, the others would have its calls, too.
        return None
    except DatabaseUnavailableError as error:
        return str(error)
    return None
