"""Connects to Redis, with short timeouts and without redis-py's own retries.

The URL selects one server, sentinels or a cluster (`backends.redis.redis_url`).
"""

import re
from typing import Any, assert_never

import redis.asyncio
import redis.asyncio.sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig

from turnstile.backends.redis.cluster import Cluster
from turnstile.backends.redis.redis_client import OUTAGES, RedisClient, Server
from turnstile.backends.redis.redis_url import RedisKind, RedisUrl, read
from turnstile.errors import CertificateRefusedError

MAX_CONNECTIONS = 10_000
"""Per pool; in effect no limit. `backends.redis.guarded` bounds the calls, and each subscription has a separate connection."""

CHECK_SECONDS = 2.0
"""Timeout of the certificate check at the start of a process."""

_POOL: dict[str, Any] = {
    "max_connections": MAX_CONNECTIONS,
    # `Server` bounds the whole call.
    "socket_timeout": None,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
}

# Matches the error text, because redis-py keeps nothing else of the errors of several nodes. The first alternative is a fault of
# the server, or of an attacker in between. With the second the server has no TLS. The others are invalid local files.
_UNTRUSTED = re.compile(
    r"\[\w+(?:: \w+)?\] (?P<why>(?:certificate verify failed|wrong version number|no certificate or crl found|PEM lib|"
    r"key values mismatch)[^(\[]*)",
    re.IGNORECASE,
)


def connect(url: str, timeout_seconds: float) -> RedisClient:
    """A client for one event loop; it connects on first use.

    Bytes that are not UTF-8 become U+FFFD: any client of Redis can publish such a message, and it must not break the
    connection.
    """
    found = read(url)
    if found.kind is RedisKind.CLUSTER:
        return Cluster(found.addresses, timeout_seconds, cluster_options(found, timeout_seconds))
    return Server(open_pool(url, timeout_seconds), timeout_seconds)


def open_pool(url: str, timeout_seconds: float) -> Any:
    """redis-py's pool for one server, or for the primary that sentinels name. Its connections have no timeout per response: a
    caller bounds its whole call."""
    found = read(url)
    options = {**_base_options(timeout_seconds), **_POOL}
    match found.kind:
        case RedisKind.SENTINEL:
            return _behind_sentinels(found, timeout_seconds, options)
        case RedisKind.SINGLE:
            return redis.asyncio.ConnectionPool.from_url(url, **options)
        case RedisKind.CLUSTER:
            raise ValueError("the nodes of a cluster have no pool in common")
        case _:
            assert_never(found.kind)


def cluster_options(found: RedisUrl, timeout_seconds: float) -> dict[str, Any]:
    """The options of redis-py's client for the nodes of this cluster."""
    tls = {"ssl": True} if found.tls else {}
    return {**_base_options(timeout_seconds), **found.options, **tls, "socket_timeout": timeout_seconds}


def _base_options(timeout_seconds: float) -> dict[str, Any]:
    return {
        # redis-py would retry ten times with a timeout of five seconds each: a minute, twice the lifetime of a lock. No
        # retries here: a caller's own second call finds the effect of the first one, or can do without it.
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": timeout_seconds,
        "decode_responses": True,
        "encoding_errors": "replace",
    }


async def check_certificate(setting: str, url: str) -> None:
    """Raises CertificateRefusedError if the server's certificate does not verify. Any other failure is an outage and raises
    nothing: the callers that use the server handle it."""
    found = read(url)
    if not found.tls:
        return
    client = connect(url, CHECK_SECONDS)
    # Each sentinel separately: redis-py drops the details of their errors.
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
            # redis-py's own error lists each client with all its settings, in one line of several thousand characters.
            raise RedisConnectionError(f"no sentinel names a primary for {service_name!r}") from error


class _SentinelPool(redis.asyncio.sentinel.SentinelConnectionPool):
    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


def _make_sentinels(found: RedisUrl, timeout_seconds: float) -> Any:
    # Sentinels are asked one after the other: all together they have the timeout of one Redis call.
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
