"""A Redis that responds, and with which workers can't work, is found."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from turnstile.config.settings import Settings
from turnstile.ops.doctor.run_checks import look


@contextmanager
def configured(settings: Settings, name: str, value: str) -> Iterator[None]:
    with Redis.from_url(settings.redis_url, decode_responses=True) as server:
        before = server.config_get(name)[name]
        server.config_set(name, value)
        try:
            yield
        finally:
            server.config_set(name, before)


async def found(settings: Settings) -> list[tuple[str, str, str]]:
    return [(one.code, one.subject, one.detail) for one in await look(settings, dlq=False)]


@pytest.mark.parametrize(
    ("name", "value", "reason"), [("min-replicas-to-write", "1", "NOREPLICAS"), ("maxmemory", "1", "OOM")]
)
@pytest.mark.usefixtures("database")
async def test_a_redis_that_refuses_writes_is_found_with_its_reason(
    settings: Settings, name: str, value: str, reason: str
) -> None:
    with configured(settings, name, value):
        [(code, subject, detail)] = await found(settings)

    assert (code, subject) == ("redis-refuses", "redis")
    assert reason in detail
    assert await found(settings) == []


@pytest.mark.silent_redis
@pytest.mark.usefixtures("database")
async def test_a_redis_that_answers_later_than_workers_wait_is_slow_and_not_away(settings: Settings) -> None:
    with Redis.from_url(settings.redis_url) as server:
        server.client_pause(3000)
        [(code, subject, detail)] = await found(settings)

    assert (code, subject) == ("redis-slow", "redis")
    assert f"no answer within {settings.redis_timeout_seconds:g} s" in detail


@pytest.mark.usefixtures("database")
async def test_the_redis_of_the_memory_is_tried_as_well(settings: Settings) -> None:
    apart = settings.model_copy(update={"memory_redis_url": "redis://127.0.0.1:1/0"})

    codes = [(code, subject) for code, subject, _ in await found(apart)]

    assert codes == [("service-unreachable", "redis of the memory")]


@pytest.mark.usefixtures("database")
async def test_nothing_is_left_on_a_healthy_redis(settings: Settings) -> None:
    assert await found(settings) == []
    with Redis.from_url(settings.redis_url, decode_responses=True) as server:
        left = list(server.scan_iter(f"{settings.redis_prefix}lock:session:*"))

        assert all(0 < server.pttl(key) <= 1000 for key in left)
