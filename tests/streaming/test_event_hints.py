"""Hints about events: one connection for all listeners of a process, which nothing that is published ends."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.probes import until
from tests.support.redis_hands import OwnEventHints, OwnEventWriter
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind, Saying, numbered
from turnstile.streaming.event_hints import EventHints
from turnstile.streaming.stream import Append


@pytest.fixture
async def hints(settings: Settings) -> AsyncIterator[EventHints]:
    made = OwnEventHints(settings)
    yield made
    await made.close()


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


async def test_a_hint_wakes_the_listeners_that_want_it(settings: Settings, hints: EventHints) -> None:
    writer = OwnEventWriter(settings)
    key = f"{settings.redis_prefix}stream"
    with hints.listen(key) as anything, hints.listen(key, only_ends=True) as ends:
        assert await ends.wait(30), "notified when it is subscribed"
        await anything.wait(30)
        await writer.append(Append(key, numbered(7, 1, [Saying(EventKind.STATUS, "{}")])))
        assert await anything.wait(30)
        assert not await ends.wait(0.1)
        await writer.append(Append(key, numbered(7, 2, [Saying(EventKind.END, "{}")])))
        assert await ends.wait(30)
    await writer.close()


async def test_when_the_connection_breaks_all_listeners_are_woken(settings: Settings, cable: Cable) -> None:
    hints = OwnEventHints(settings.model_copy(update={"memory_redis_url": at_port(settings.redis_url, cable.port)}))
    with hints.listen("channel") as listener:
        assert await listener.wait(30)
        await cable.cut()
        assert await listener.wait(30)
        await cable.plug_in()

        assert await until(lambda: listener.wait(1))
    await hints.close()


async def test_a_quiet_connection_is_kept_and_a_dead_one_is_replaced(
    settings: Settings, cable: Cable, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.backends.redis.subscribe.QUIET_SECONDS", 0.3)
    hints = OwnEventHints(settings.model_copy(update={"memory_redis_url": at_port(settings.redis_url, cable.port)}))
    with hints.listen("channel") as listener:
        assert await listener.wait(30)
        # Long enough for several pings; a lost connection would wake all listeners.
        assert not await listener.wait(1.5)
        await keys.publish("channel", "delta")
        assert await listener.wait(30)
        cable.silent = True
        assert await listener.wait(30)
        cable.silent = False
    await hints.close()
