"""A reachability check of Redis, for operators' commands."""

from turnstile.backends.redis.client import OUTAGES
from turnstile.backends.redis.connect import connect
from turnstile.errors import TurnstileError

OPERATOR_TIMEOUT_SECONDS = 5.0
"""Longer than a worker's timeout: an operator's command may be slow, a turn may not."""


class RedisUnreachableError(TurnstileError):
    """Redis does not respond."""


async def ping(url: str) -> None:
    """Returns if the Redis at `url` responds. Raises RedisUnreachableError."""
    client = connect(url, timeout_seconds=OPERATOR_TIMEOUT_SECONDS)
    try:
        await client.ping()
    except OUTAGES as error:
        raise RedisUnreachableError(f"{type(error).__name__}: {error}") from error
    finally:
        await client.aclose()
