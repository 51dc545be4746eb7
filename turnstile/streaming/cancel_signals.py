"""Hints about cancels: to whoever runs a turn that was asked to stop, and to whoever watches one that is CANCELED by now.

The handler of a running turn hears of it within a second instead of a heartbeat; a client that follows a waiting turn, or
waits for its end, is told at once instead of at the next look: no worker will ever say that this turn has ended.

A hint decides nothing (rule 2): the row says it before the hint is published, and whoever hears the hint looks there. One
that is lost, doubled, forged or not sent, because Redis is away, costs a heartbeat's or a look's wait and nothing else.

One channel for all workers: cancels of running turns are few, and a worker knows without asking which turns it has in its
hands. Watchers listen on their turn's own channel, where its events are hinted at, too (`streaming.subscriptions`).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import structlog
from redis.exceptions import RedisError

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.connect import connect, connect_listener
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind, name_stream
from turnstile.turn.status import TurnStatus

QUIET_SECONDS = 5.0
"""After so long without a word the connection is asked for a sign of life; after as long again it is made anew."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger("turnstile.hints")


def _channel(settings: Settings) -> str:
    return f"{settings.redis_prefix}hints:cancel"


class CancelHints:
    """Publishes them, after the commit. Connects when it is first used. Never raises; each call takes one Redis time-out at
    most."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.redis_prefix
        self._channel = _channel(settings)
        self._to_workers = _Publisher(settings.redis_url, settings.redis_timeout_seconds)
        self._to_watchers = _Publisher(settings.memory_redis, settings.redis_timeout_seconds)

    async def tell(self, tenant_id: str, session_id: str, turn_id: UUID, status: TurnStatus) -> None:
        """Tells whom the cancel of one turn concerns. `status` is what it is now: RUNNING, asked to stop, or CANCELED."""
        if status is TurnStatus.RUNNING:
            await self.publish([turn_id])
        else:
            await self.tell_watchers(tenant_id, session_id, [turn_id])

    async def publish(self, turn_ids: Sequence[UUID]) -> None:
        """Tells whoever runs these turns to look at their rows."""
        await self._to_workers.publish([(self._channel, str(turn_id)) for turn_id in turn_ids])

    async def tell_watchers(self, tenant_id: str, session_id: str, turn_ids: Sequence[UUID]) -> None:
        """Tells whoever watches these turns of one session that they have ended."""
        channels = [name_stream(self._prefix, tenant_id, session_id, turn_id) for turn_id in turn_ids]
        await self._to_watchers.publish([(channel, EventKind.END.value) for channel in channels])

    async def close(self) -> None:
        """Closes the connections."""
        await self._to_workers.close()
        await self._to_watchers.close()


class _Publisher:
    """Publishes on one Redis, and leaves it alone for a while when it is away."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._redis = connect(url, timeout_seconds)
        self._circuit = Circuit()

    async def publish(self, hints: Sequence[tuple[str, str]]) -> None:
        """Each a channel and what is said there."""
        if not hints or not self._circuit.allows(time.monotonic()):
            return
        pipeline = self._redis.pipeline(transaction=False)
        for channel, word in hints:
            pipeline.publish(channel, word)
        try:
            answers = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            self._circuit.failed(time.monotonic())
            log.warning("hints.not_published", error=f"{type(error).__name__}: {error}", turns=len(hints))
        else:
            self._circuit.succeeded()
            refused = next((answer for answer in answers if isinstance(answer, Exception)), None)
            if refused is not None:
                log.warning("hints.refused", error=f"{type(refused).__name__}: {refused}", turns=len(hints))

    async def close(self) -> None:
        await self._redis.aclose()


async def listen(settings: Settings, heed: Callable[[UUID], None]) -> None:
    """Calls `heed` with each turn that is hinted at, until it is cancelled. No publish ends it, and no failure does: it
    connects again and again."""
    client = connect_listener(settings.redis_url, settings.redis_timeout_seconds)
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
        except Exception:
            # A bug of ours. The hints that follow are still worth hearing.
            log.exception("hints.failed", again_in_seconds=pause)
        finally:
            with suppress(RedisError, OSError):
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
        # Not from us. A client that can publish here can do no more than this.
        return None
