"""Redis as operators' commands reach it: an outage is an error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.redis_client import OUTAGES, RedisClient
from turnstile.errors import TurnstileError

TIMEOUT_SECONDS = 5.0
"""Longer than a worker's timeout: an operator's command may be slow, a turn may not."""


class RedisUnreachableError(TurnstileError):
    """Redis does not respond."""


@asynccontextmanager
async def operator_client(url: str) -> AsyncIterator[RedisClient]:
    """A client for the block. An outage inside the block raises RedisUnreachableError."""
    client = connect(url, TIMEOUT_SECONDS)
    try:
        yield client
    except OUTAGES as error:
        raise RedisUnreachableError(f"{type(error).__name__}: {error}") from error
    finally:
        await client.aclose()
