"""Change events of a session's memory: told by the scripts, on one channel for each session (H4). Hints, never work (G36)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from redis.exceptions import RedisError

from memory.interface import MemoryChange

QUIET_SECONDS = 5.0
"""After so long without a word the connection is asked for a sign of life; after as long again it is given up. A Redis that has
vanished without a word (a host, a path through a network) would be listened to for ever."""

log = structlog.get_logger("turnstile.memory")


@asynccontextmanager
async def subscribed(redis: Any, channel: str) -> AsyncIterator[AsyncIterator[MemoryChange]]:
    """The changes from now on; an empty run of them if Redis is away."""
    subscription = redis.pubsub()
    try:
        yield _changes(subscription if await _joined(subscription, channel) else None)
    finally:
        await subscription.aclose()


async def _joined(subscription: Any, channel: str) -> bool:
    try:
        await subscription.subscribe(channel)
    except (RedisError, OSError) as error:
        log.info("memory.not_subscribed", error=f"{type(error).__name__}: {error}")
        return False
    return True


async def _changes(subscription: Any) -> AsyncIterator[MemoryChange]:
    asked = False
    while subscription is not None:
        try:
            message = await subscription.get_message(timeout=QUIET_SECONDS)
            if message is None and asked:
                raise ConnectionError("no sign of life")
            if asked := message is None:
                await subscription.ping()
        except (RedisError, OSError) as error:
            log.info("memory.subscription_lost", error=f"{type(error).__name__}: {error}")
            return
        if message is not None and message["type"] == "message":
            yield _read(message["data"])


def _read(text: str) -> MemoryChange:
    told = json.loads(text)
    of, name, version = told["of"], told["name"], told.get("version")
    kind, key = name.split(":", 1) if of == "item" else (None, name)
    return MemoryChange(of, told["event"], kind, key, None if version is None else int(version))
