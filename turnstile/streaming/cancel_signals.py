"""Hints about cancels: to whoever runs a turn that was asked to stop, and to whoever watches one that is CANCELED by now.

The handler of a running turn hears of it within a second instead of a heartbeat; a client that follows a waiting turn, or
waits for its end, is told at once instead of at the next look: no worker will ever say that this turn has ended.

A hint decides nothing (rule 2): the row says it before the hint is published, and whoever hears the hint looks there. One
that is lost, doubled, forged or not sent, because Redis is away, costs a heartbeat's or a look's wait and nothing else.

One channel for all workers: cancels of running turns are few, and a worker knows without asking which turns it has in its
hands. Watchers listen on their turn's own channel, where its events are hinted at, too (`streaming.subscriptions`).
"""

from collections.abc import Callable, Sequence
from typing import NoReturn
from uuid import UUID

import structlog

from turnstile.backends.redis.guarded import Guarded
from turnstile.backends.redis.subscribe import Channels, Heard, keep_hearing
from turnstile.config.redis_clients import RedisClients
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind, name_stream
from turnstile.turn.status import TurnStatus

log = structlog.get_logger("turnstile.hints")


def _channel(settings: Settings) -> str:
    return f"{settings.redis_prefix}hints:cancel"


class CancelHints:
    """Publishes them, after the commit. Never raises; each call takes one Redis time-out at most."""

    def __init__(self, settings: Settings, redis: RedisClients) -> None:
        self._prefix = settings.redis_prefix
        self._channel = _channel(settings)
        self._redis = redis

    async def tell(self, tenant_id: str, session_id: str, turn_id: UUID, status: TurnStatus) -> None:
        """Tells whom the cancel of one turn concerns. `status` is what it is now: RUNNING, asked to stop, or CANCELED."""
        if status is TurnStatus.RUNNING:
            await self.publish([turn_id])
        else:
            await self.tell_watchers(tenant_id, session_id, [turn_id])

    async def publish(self, turn_ids: Sequence[UUID]) -> None:
        """Tells whoever runs these turns to look at their rows."""
        if turn_ids:
            await self._redis.lock.run([("PUBLISH", self._channel, str(turn_id)) for turn_id in turn_ids])

    async def tell_watchers(self, tenant_id: str, session_id: str, turn_ids: Sequence[UUID]) -> None:
        """Tells whoever watches these turns of one session that they have ended."""
        channels = [name_stream(self._prefix, tenant_id, session_id, turn_id) for turn_id in turn_ids]
        if channels:
            await self._redis.memory.run([("PUBLISH", channel, EventKind.END.value) for channel in channels])


async def listen(settings: Settings, redis: Guarded, nudge: Callable[[UUID], None]) -> NoReturn:
    """Calls `nudge` with each turn that is hinted at, until it is cancelled. Nothing that is published ends it, nor does any
    failure."""

    def heed(heard: Heard) -> None:
        if heard.text is None:
            log.debug("hints.listening")
        elif (turn_id := _read(heard.text)) is not None:
            nudge(turn_id)

    await keep_hearing(redis, Channels(_channel(settings)), heed)


def _read(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        # Not from us. A client that can publish here can do no more than this.
        return None
