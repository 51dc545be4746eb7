"""Change events of a session's memory: published by the scripts, on one channel per session. Hints, never work."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import OUTAGES
from turnstile.backends.redis.subscribe import Channels, Heard, hear
from turnstile.memory.interface import MemoryChange
from turnstile.telemetry.own_log import log


@asynccontextmanager
async def subscribed(redis: GuardedRedis, channel: str) -> AsyncIterator[AsyncIterator[MemoryChange]]:
    """The changes from now on, until the connection is lost; none if Redis is away."""
    async with aclosing(hear(redis, Channels(channel))) as heard:
        try:
            async with asyncio.timeout(redis.timeout_seconds):
                # The first item means that the subscription has begun.
                await anext(heard)
        except OUTAGES as error:
            log.info("memory.not_subscribed", error=f"{type(error).__name__}: {error}")
        # After a failure the generator yields nothing more.
        yield _changes(heard)


async def _changes(heard: AsyncGenerator[Heard, None]) -> AsyncIterator[MemoryChange]:
    try:
        async for one in heard:
            if one.text is not None and (change := _read(one.text)) is not None:
                yield change
    except OUTAGES as error:
        log.info("memory.subscription_lost", error=f"{type(error).__name__}: {error}")


def _read(text: str) -> MemoryChange | None:
    """None for a text that no script publishes: any Redis client may publish here."""
    try:
        fields = json.loads(text)
        of, event, name, version = fields["of"], fields["event"], fields["name"], fields.get("version")
        kind, key = name.split(":", 1) if of == "item" else (None, name)
        number = None if version is None else int(version)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None
    if not (isinstance(of, str) and isinstance(event, str) and isinstance(key, str)):
        return None
    return MemoryChange(of, event, kind, key, number)
