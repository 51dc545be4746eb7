"""Cancel hints: to the worker of a running turn whose cancel was requested, and to the watchers of a turn that is CANCELED.

With a hint, the handler of a running turn learns of the cancel within a second, not at the next heartbeat. A client that
follows a waiting turn, or waits for its end, learns of it at once, not at the next look: no worker publishes this turn's end.

A hint decides nothing (rule 2): the row changes before the hint is published, and a receiver reads the row. A hint
that is lost, doubled, forged or not sent because Redis is away costs only the wait for the next heartbeat or look.

All workers share one channel: cancels of running turns are few, and a worker knows its own turns without a query. Watchers
listen on their turn's own channel, which also has the hints about its events (`streaming.event_hints`).
"""

from collections.abc import Callable, Sequence
from typing import NoReturn
from uuid import UUID

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.subscribe import Channels, Heard, keep_hearing
from turnstile.config.settings import Settings
from turnstile.process.redis_clients import RedisClients
from turnstile.streaming.event import EventKind, name_stream
from turnstile.telemetry.own_log import log
from turnstile.turn.status import TurnStatus


def _channel(settings: Settings) -> str:
    return f"{settings.redis_prefix}hints:cancel"


class CancelHints:
    """Publishes cancel hints, after the commit. Never raises; each call takes one Redis timeout at most."""

    def __init__(self, settings: Settings, redis: RedisClients) -> None:
        self._prefix = settings.redis_prefix
        self._channel = _channel(settings)
        self._redis = redis

    async def tell(self, tenant_id: str, session_id: str, turn_id: UUID, status: TurnStatus) -> None:
        """Publishes the hint about one turn. `status` is the status now: RUNNING with a requested cancel, or CANCELED."""
        if status is TurnStatus.RUNNING:
            await self.publish([turn_id])
        else:
            await self.tell_watchers(tenant_id, session_id, [turn_id])

    async def publish(self, turn_ids: Sequence[UUID]) -> None:
        """Asks the workers that run these turns to read the rows."""
        if turn_ids:
            await self._redis.lock.run([("PUBLISH", self._channel, str(turn_id)) for turn_id in turn_ids])

    async def tell_watchers(self, tenant_id: str, session_id: str, turn_ids: Sequence[UUID]) -> None:
        """Notifies the watchers of these turns of one session that the turns have ended."""
        channels = [name_stream(self._prefix, tenant_id, session_id, turn_id) for turn_id in turn_ids]
        if channels:
            await self._redis.memory.run([("PUBLISH", channel, EventKind.END.value) for channel in channels])


async def listen(settings: Settings, redis: GuardedRedis, nudge: Callable[[UUID], None]) -> NoReturn:
    """Calls `nudge` with the turn of each hint, until it is cancelled. No message and no failure ends it."""

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
        # Not from this program. A Redis client that can publish here can do no more harm than this.
        return None
