"""How Redis is connected to: with short time-outs, and without redis-py's own retries. One server, sentinels or a cluster.

The URL says which (`backends.redis.url`).
"""

import re
from typing import Any, assert_never

import redis.asyncio
import redis.asyncio.sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig

from turnstile.backends.redis.client import OUTAGES, RedisClient, Server
from turnstile.backends.redis.cluster import Cluster
from turnstile.backends.redis.url import RedisKind, RedisUrl, read
from turnstile.errors import CertificateRefusedError

MAX_CONNECTIONS = 10_000
"""Of a pool: no bound. `backends.redis.guarded` bounds the calls, and each subscription has a connection of its own."""

CHECK_SECONDS = 2.0
"""For the one look at a certificate, when a process starts."""

_POOL: dict[str, Any] = {
    "max_connections": MAX_CONNECTIONS,
    # None for each answer: `Server` bounds the whole call.
    "socket_timeout": None,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
}

# The text, because redis-py keeps nothing else of what several nodes have answered. The first is the fault of the server, or of
# somebody in between; the second has no TLS; the others are files of ours that are none.
_UNTRUSTED = re.compile(
    r"\[\w+(?:: \w+)?\] (?P<why>(?:certificate verify failed|wrong version number|no certificate or crl found|PEM lib|"
    r"key values mismatch)[^(\[]*)",
    re.IGNORECASE,
)


def connect(url: str, timeout_seconds: float) -> RedisClient:
    """A client for one event loop; it connects when it is first used.

    Text that is not UTF-8 has U+FFFD in place of what can't be read: anyone who reaches Redis may publish, and such a message
    must not break the connection.
    """
    options = {
        # redis-py would retry ten times with a five second time-out each: a minute, twice the life of a lock. Without any:
        # whatever is asked twice here finds its own first answer, or can do without.
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": timeout_seconds,
        "decode_responses": True,
        "encoding_errors": "replace",
    }
    found = read(url)
    match found.kind:
        case RedisKind.CLUSTER:
            tls = {"ssl": True} if found.tls else {}
            shared = {**options, **found.options, **tls, "socket_timeout": timeout_seconds}
            return Cluster(found.addresses, timeout_seconds, shared)
        case RedisKind.SENTINEL:
            return Server(_behind_sentinels(found, timeout_seconds, {**options, **_POOL}), timeout_seconds)
        case RedisKind.SINGLE:
            pool = redis.asyncio.ConnectionPool.from_url(url, **options, **_POOL)
            return Server(pool, timeout_seconds)
        case _:
            assert_never(found.kind)


async def check_certificate(setting: str, url: str) -> None:
    """Raises CertificateRefusedError if the server shows no certificate that holds. Any other failure is an outage, which may
    pass by itself: it is left to the callers that use the server."""
    found = read(url)
    if not found.tls:
        return
    client = connect(url, CHECK_SECONDS)
    # The sentinels too: redis-py keeps of their errors no more than that there were some.
    sentinels = _make_sentinels(found, CHECK_SECONDS) if found.kind is RedisKind.SENTINEL else None
    try:
        for each in (*(sentinels.sentinels if sentinels else ()), client):
            try:
                await each.ping()
            except OUTAGES as error:
                if (reason := _UNTRUSTED.search(f"{error} {error.__cause__}")) is not None:
                    raise CertificateRefusedError(setting, reason["why"].strip(" .")) from error
    finally:
        await client.aclose()
        if sentinels:
            await sentinels.aclose()


class _Sentinels(redis.asyncio.sentinel.Sentinel):
    async def discover_master(self, service_name: str) -> Any:
        try:
            return await super().discover_master(service_name)
        except redis.asyncio.sentinel.MasterNotFoundError as error:
            # redis-py's own error describes each client with all its settings, in one line of several thousand characters.
            raise RedisConnectionError(f"no sentinel names a primary for {service_name!r}") from error


class _SentinelPool(redis.asyncio.sentinel.SentinelConnectionPool):
    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


def _make_sentinels(found: RedisUrl, timeout_seconds: float) -> Any:
    # They are asked one after the other: all of them together take no longer than Redis itself.
    seconds = timeout_seconds / len(found.addresses)
    asked = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "decode_responses": True,
        "retry": Retry(NoBackoff(), 0),
        **found.sentinel_options,
        **({"ssl": True} if found.tls else {}),
    }
    return _Sentinels(found.addresses, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]


def _behind_sentinels(found: RedisUrl, timeout_seconds: float, options: dict[str, Any]) -> Any:
    return _SentinelPool(  # type: ignore[no-untyped-call]
        found.service, _make_sentinels(found, timeout_seconds), ssl=found.tls, **options, **found.options
    )
