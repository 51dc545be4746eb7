"""How Redis is connected to: with short time-outs, and without redis-py's own retries."""

from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

# redis-py would retry ten times with a five second time-out each: a minute, twice the life of a lock. None at all, because
# whatever is asked twice here finds its own first answer, or can do without.


def connect(url: str, timeout_seconds: float, *, max_connections: int | None = None) -> redis.asyncio.Redis:
    """A client for the event loop; connects when it is first used. With `max_connections`, calls wait for a free one (H9)."""
    options: dict[str, Any] = {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": AsyncRetry(NoBackoff(), 0),
        "decode_responses": True,
    }
    if max_connections is None:
        return redis.asyncio.Redis.from_url(url, **options)
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url, max_connections=max_connections, timeout=timeout_seconds, **options
    )
    return redis.asyncio.Redis.from_pool(pool)


def connect_blocking(url: str, timeout_seconds: float) -> redis.Redis:
    """The same for a thread."""
    return redis.Redis.from_url(
        url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )
