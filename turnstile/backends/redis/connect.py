"""How Redis is connected to: with short time-outs, and without redis-py's own retries. One server, sentinels or a cluster.

A URL decides which (`backends.redis.url`). What comes of it is used alike: a single server and a primary that sentinels know are
redis-py's own client, with nothing in between; for a cluster there is `backends.redis.cluster`, which has what is used of it.
"""

import asyncio
import re
from typing import Any, assert_never

import redis
import redis.asyncio
import redis.asyncio.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from turnstile.backends.redis.cluster import Cluster
from turnstile.backends.redis.pipeline import PipeliningRedis
from turnstile.backends.redis.pools import frugal
from turnstile.backends.redis.url import RedisKind, RedisUrl, read
from turnstile.errors import CertificateRefusedError

# redis-py would retry ten times with a five second time-out each: a minute, twice the life of a lock. None at all, because
# whatever is asked twice here finds its own first answer, or can do without.

CHECK_SECONDS = 2.0
"""For the one look at a certificate, when a process starts."""

# The text, because redis-py keeps nothing else of what several nodes have answered. The first is the fault of the server, or of
# somebody in between; the second has no TLS; the others are files of ours that are none.
_UNTRUSTED = re.compile(
    r"\[\w+(?:: \w+)?\] (?P<why>(?:certificate verify failed|wrong version number|no certificate or crl found|PEM lib|"
    r"key values mismatch)[^(\[]*)",
    re.IGNORECASE,
)

_closing: set[asyncio.Task[None]] = set()


def connect(url: str, timeout_seconds: float, *, max_connections: int | None = None) -> redis.asyncio.Redis:
    """A client for the event loop; connects when it is first used. With `max_connections`, calls wait for a free one (H9).

    For a cluster it is a `backends.redis.cluster.Cluster`, which can do as much as the product asks for.
    """
    return _connect(url, timeout_seconds, max_connections, {})


def connect_listener(url: str, timeout_seconds: float) -> redis.asyncio.Redis:
    """A client for subscriptions. Text that is not UTF-8 arrives with U+FFFD in place of what can't be read.

    Anybody who reaches Redis may publish. With `connect` one such message would raise UnicodeDecodeError and break the
    connection, and hints would be missed until there is another.
    """
    return _connect(url, timeout_seconds, None, {"encoding_errors": "replace"})


def _connect(
    url: str, timeout_seconds: float, max_connections: int | None, further: dict[str, Any]
) -> redis.asyncio.Redis:
    options = {**_timeouts(timeout_seconds), "retry": AsyncRetry(NoBackoff(), 0), "decode_responses": True, **further}
    found = read(url)
    match found.kind:
        case RedisKind.CLUSTER:
            shared = {**options, **found.options, **({"ssl": True} if found.tls else {})}
            cluster: Any = Cluster(found.addresses, timeout_seconds, shared, max_connections)
            return cluster  # type: ignore[no-any-return]
        case RedisKind.SENTINEL:
            return _behind_sentinels(found, timeout_seconds, options, max_connections)
        case RedisKind.SINGLE if max_connections is None:
            pool = frugal(redis.asyncio.ConnectionPool).from_url(url, **options)
        case RedisKind.SINGLE:
            waiting = {"max_connections": max_connections, "timeout": timeout_seconds}
            pool = frugal(redis.asyncio.BlockingConnectionPool).from_url(url, **waiting, **options)
        case _:
            assert_never(found.kind)
    return PipeliningRedis.from_pool(pool)


def leave_demoted(client: Any, error: BaseException) -> None:
    """Takes leave of a server that refuses writes: it was the primary, and was failed over without breaking connections.

    For whoever was answered `error`. Inside a script that refusal is an error like any other, so redis-py does not see it; and
    behind a name or a load balancer the next connection leads to the new primary.
    """
    pool = getattr(client, "connection_pool", None)
    if pool is None or "READONLY" not in str(error):
        return
    disconnected = pool.disconnect(inuse_connections=False)
    if asyncio.iscoroutine(disconnected):
        task = asyncio.get_running_loop().create_task(disconnected)
        _closing.add(task)
        task.add_done_callback(_closing.discard)


async def check_certificate(setting: str, url: str) -> None:
    """Raises CertificateRefusedError if the server shows no certificate that holds. Whatever else is wrong with it is an outage:
    it may pass by itself, and is for those to find out who work with it."""
    if not read(url).tls:
        return
    client: Any = connect(url, CHECK_SECONDS)
    watching = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    try:
        # The sentinels too: redis-py keeps of their errors no more than that there were some.
        for each in (*(watching.sentinels if watching else ()), client):
            try:
                await each.ping()
            except (RedisError, OSError) as error:
                if (reason := _UNTRUSTED.search(f"{error} {error.__cause__}")) is not None:
                    raise CertificateRefusedError(setting, reason["why"].strip(" .")) from error
    finally:
        await client.aclose()


def _timeouts(seconds: float) -> dict[str, Any]:
    return {"socket_timeout": seconds, "socket_connect_timeout": seconds}


def _sentinel_timeouts(found: RedisUrl, seconds: float) -> dict[str, Any]:
    # They are asked one after the other: all of them together no longer than Redis itself is waited for.
    return {**_timeouts(seconds / len(found.addresses)), "decode_responses": True}


# redis-py's own error describes each of its clients with all their settings, in one line of several thousand characters.


class _Sentinels(redis.asyncio.sentinel.Sentinel):
    async def discover_master(self, service_name: str) -> Any:
        try:
            return await super().discover_master(service_name)
        except redis.asyncio.sentinel.MasterNotFoundError as error:
            raise RedisConnectionError(f"no sentinel names a primary for {service_name!r}") from error


class _SentinelPool(redis.asyncio.sentinel.SentinelConnectionPool):
    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


class _BlockingSentinelPool(redis.asyncio.BlockingConnectionPool, _SentinelPool):
    pass


def _behind_sentinels(
    found: RedisUrl, timeout_seconds: float, options: dict[str, Any], max_connections: int | None
) -> redis.asyncio.Redis:
    asked = {
        **_sentinel_timeouts(found, timeout_seconds),
        "retry": AsyncRetry(NoBackoff(), 0),
        **found.sentinel_options,
    }
    sentinel: Any = _Sentinels(  # type: ignore[no-untyped-call]
        found.addresses, sentinel_kwargs={**asked, **({"ssl": True} if found.tls else {})}
    )
    given = {**options, **found.options, "service_name": found.service, "sentinel_manager": sentinel}
    connection = (
        redis.asyncio.sentinel.SentinelManagedSSLConnection
        if found.tls
        else redis.asyncio.sentinel.SentinelManagedConnection
    )
    pool: Any
    if max_connections is None:
        pool = frugal(_SentinelPool)(connection_class=connection, **given)
    else:
        pool = frugal(_BlockingSentinelPool)(
            connection_class=connection, max_connections=max_connections, timeout=timeout_seconds, **given
        )
    return PipeliningRedis.from_pool(pool)
