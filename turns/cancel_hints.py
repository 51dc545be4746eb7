"""Hints that a running turn was asked to stop, so that its handler hears of it within a second instead of a heartbeat.

A hint decides nothing (rule 2): the request stands on the row before it is published, and whoever hears the hint looks
there. One that is lost, doubled, forged or not sent, because Redis is away, costs a heartbeat's wait and nothing else.

One channel for all: cancels of running turns are few, and a worker knows without asking which turns it has in its hands.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import structlog
from redis.exceptions import RedisError

from turns.circuit import Circuit
from turns.redis_connections import connect
from turns.settings import Settings

QUIET_SECONDS = 5.0
"""After so long without a word the connection is asked for a sign of life; after as long again it is made anew."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger("turnstile.hints")


def _channel(settings: Settings) -> str:
    return f"{settings.redis_prefix}hints:cancel"


class CancelHints:
    """Publishes them. Connects when it is first used."""

    def __init__(self, settings: Settings) -> None:
        self._redis = connect(settings.redis_url, settings.redis_timeout_seconds)
        self._channel = _channel(settings)
        self._circuit = Circuit()

    async def publish(self, turn_ids: Sequence[UUID]) -> None:
        """Tells whoever runs these turns to look at their rows. Never raises; takes one Redis time-out at most."""
        if not turn_ids or not self._circuit.allows(time.monotonic()):
            return
        pipeline = self._redis.pipeline(transaction=False)
        for turn_id in turn_ids:
            pipeline.publish(self._channel, str(turn_id))
        try:
            await pipeline.execute()
        except (RedisError, OSError) as error:
            self._circuit.failed(time.monotonic())
            log.warning("hints.not_published", error=f"{type(error).__name__}: {error}", turns=len(turn_ids))
        else:
            self._circuit.succeeded()

    async def close(self) -> None:
        """Closes the connection."""
        await self._redis.aclose()


async def listen(settings: Settings, heed: Callable[[UUID], None]) -> None:
    """Calls `heed` with each turn that is hinted at, until it is cancelled. Outlasts Redis by connecting again and again."""
    client = connect(settings.redis_url, settings.redis_timeout_seconds)
    pause = FIRST_PAUSE_SECONDS
    while True:
        channel: Any = client.pubsub()
        try:
            await channel.subscribe(_channel(settings))
            log.debug("hints.listening")
            pause = FIRST_PAUSE_SECONDS
            await _receive(channel, heed)
        except (RedisError, OSError) as error:
            log.info("hints.not_heard", error=f"{type(error).__name__}: {error}", again_in_seconds=pause)
        finally:
            await channel.aclose()
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _receive(channel: Any, heed: Callable[[UUID], None]) -> None:
    asked = False
    while True:
        message = await channel.get_message(timeout=QUIET_SECONDS)
        if message is None and asked:
            raise ConnectionError("no sign of life")
        asked = message is None
        if message is None:
            await channel.ping()
        elif message["type"] == "message" and (turn_id := _read(message["data"])) is not None:
            heed(turn_id)


def _read(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        # Not from us. Whoever can publish here can do no more than this.
        return None
