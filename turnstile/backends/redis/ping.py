"""Whether a Redis answers, for operators' commands."""

from turnstile.backends.redis.client import OUTAGES
from turnstile.backends.redis.connect import connect
from turnstile.errors import TurnstileError

OPERATOR_TIMEOUT_SECONDS = 5.0
"""Longer than a worker waits: an operator's look may be late, a turn may not."""


class RedisUnreachableError(TurnstileError):
    """Redis does not answer."""


async def ping(url: str) -> None:
    """Returns if the Redis of this URL answers. Raises RedisUnreachableError."""
    client = connect(url, timeout_seconds=OPERATOR_TIMEOUT_SECONDS)
    try:
        await client.ping()
    except OUTAGES as error:
        raise RedisUnreachableError(f"{type(error).__name__}: {error}") from error
    finally:
        await client.aclose()
