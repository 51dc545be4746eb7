"""Change events of a session's memory: told by the scripts, on one channel for each session (H4). Hints, never work (G36)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from redis.exceptions import RedisError

from turnstile.memory.interface import MemoryChange

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
        if message is not None and message["type"] == "message" and (change := _read(message["data"])) is not None:
            yield change


def _read(text: str) -> MemoryChange | None:
    """None for what no script of ours publishes: anybody who reaches Redis may publish here."""
    try:
        told = json.loads(text)
        of, event, name, version = told["of"], told["event"], told["name"], told.get("version")
        kind, key = name.split(":", 1) if of == "item" else (None, name)
        number = None if version is None else int(version)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None
    if not (isinstance(of, str) and isinstance(event, str) and isinstance(key, str)):
        return None
    return MemoryChange(of, event, kind, key, number)
