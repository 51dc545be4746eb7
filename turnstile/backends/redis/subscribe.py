"""The only way to listen on Redis channels.

A published message is only a hint, and may be lost. A connection that breaks, or goes silent, ends `hear` with an error;
`keep_hearing` then reconnects, and notifies its caller that messages may have been missed.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from turnstile.backends.backoff import ceiling
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import OUTAGES
from turnstile.telemetry.own_log import log

QUIET_SECONDS = 5.0
"""After this many seconds without a message the client pings the server; after as many more without a response it gives
up the connection. A vanished Redis (its host, or the network path) sends nothing that would end the connection."""

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Heard:
    channel: str
    text: str | None
    """None: the subscription has started. Earlier messages were not received."""


class Channels:
    """The subscribed channel names. They may change while `hear` runs."""

    def __init__(self, *names: str) -> None:
        self.names: Collection[str] = names
        self.changed = asyncio.Event()
        """Set this after a change of `names`."""


async def hear(redis: GuardedRedis, channels: Channels) -> AsyncGenerator[Heard, None]:
    """Yields the messages from now on. It has a separate connection, and raises RedisError or OSError when that is lost."""
    pubsub = redis.pubsub()
    following: asyncio.Task[NoReturn] | None = None
    pinged = False
    try:
        async with asyncio.timeout(redis.timeout_seconds):
            await pubsub.connect()
        following = asyncio.create_task(_follow(pubsub, channels, redis.timeout_seconds))
        while True:
            message = await pubsub.get_message(timeout=QUIET_SECONDS)
            if following.done():
                await following
            if message is None:
                if pinged:
                    raise ConnectionError("no answer to a ping")
                async with asyncio.timeout(redis.timeout_seconds):
                    await pubsub.ping()
            elif message["type"] in ("subscribe", "message"):
                yield Heard(message["channel"], message["data"] if message["type"] == "message" else None)
            pinged = message is None
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        with suppress(*OUTAGES):
            await pubsub.aclose()


async def _follow(pubsub: Any, channels: Channels, timeout_seconds: float) -> NoReturn:
    """Updates the subscriptions whenever `channels` changes."""
    subscribed: set[str] = set()
    while True:
        channels.changed.clear()
        wanted = set(channels.names)
        # All names at once: a thousand readers that reconnect after a restart need one command.
        async with asyncio.timeout(timeout_seconds):
            if missing := wanted - subscribed:
                await pubsub.subscribe(*missing)
            if left := subscribed - wanted:
                await pubsub.unsubscribe(*left)
        subscribed = wanted
        await channels.changed.wait()


async def keep_hearing(
    redis: GuardedRedis, channels: Channels, heed: Callable[[Heard], None], missed: Callable[[], None] = lambda: None
) -> NoReturn:
    """Calls `heed` with each message, and `missed` whenever the connection was lost, until it is cancelled.

    No failure ends it, not even an exception from `heed`.
    """
    failures = 0
    while True:
        began = time.monotonic()
        try:
            async with aclosing(hear(redis, channels)) as heard:
                async for one in heard:
                    heed(one)
        except OUTAGES as error:
            log.info("hints.not_heard", error=f"{type(error).__name__}: {error}", channels=len(channels.names))
        except Exception:
            # A bug in our code. Later messages are still useful.
            log.exception("hints.failed", channels=len(channels.names))
        failures = 1 if time.monotonic() - began > LONGEST_PAUSE_SECONDS else failures + 1
        missed()
        await asyncio.sleep(ceiling(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
