"""Events that wait for Redis: the handler does not wait, their number and size are bounded, and large ones go in portions."""

import json

import pytest

from tests.support.probes import until
from tests.worker.attempt.emitted_events import EmitterRig, large
from turnstile.worker.attempt.event_buffer import MAX_APPEND_BYTES, MAX_GATHERED, MAX_GATHERED_BYTES


async def test_while_redis_is_away_events_are_kept_and_appended_later(rig: EmitterRig) -> None:
    await rig.quiet()
    rig.redis.away = True
    await rig.emitter.emit("Hello, ")
    await until(lambda: rig.redis.calls == 2)
    await rig.emitter.emit("world")
    rig.redis.away = False
    await rig.quiet()
    assert rig.redis.text(rig.redis.stream) == "Hello, world"
    assert [event.id.n for event in rig.redis.stream] == [1, 2, 3]


async def test_the_number_of_waiting_events_is_bounded_and_the_text_is_whole(rig: EmitterRig) -> None:
    rig.redis.away = True
    for n in range(3 * MAX_GATHERED):
        await rig.emitter.emit(f"{n} ")
        await rig.emitter.emit(n)
        if n == 5:
            await until(lambda: rig.redis.calls)
    assert len(rig.emitter._gathered) <= MAX_GATHERED
    rig.redis.away = False
    await rig.quiet()
    assert rig.redis.text(rig.redis.heard) == rig.emitter.text == "".join(f"{n} " for n in range(3 * MAX_GATHERED))


async def test_a_text_that_is_sent_whole_comes_after_the_beginning_of_its_attempt(rig: EmitterRig) -> None:
    """For a reader the text of an attempt that has just begun is empty."""
    for n in range(MAX_GATHERED):
        await rig.emitter.emit(f"{n} ")
        await rig.emitter.emit(n)
    await rig.quiet()

    assert [event.saying.kind.value for event in rig.redis.heard[:2]] == ["status", "reset"]


async def test_large_events_are_appended_in_portions_and_in_order() -> None:
    rig = EmitterRig(cap=1000)
    for n in range(100):
        await rig.emitter.emit(large(n))
    rig.succeed("bye")
    await rig.quiet()

    said = [json.loads(event.saying.data)["n"] for event in rig.redis.heard[1:-1]]
    assert (said, rig.redis.kinds[-1]) == (list(range(100)), "end")
    assert max(rig.redis.sizes) <= MAX_APPEND_BYTES
    assert rig.redis.calls < 10


async def test_the_size_of_waiting_events_is_bounded(rig: EmitterRig) -> None:
    await rig.quiet()
    rig.redis.away = True
    for n in range(MAX_GATHERED // 2):
        await rig.emitter.emit(f"{n} ")
        await rig.emitter.emit(large(n))
    rig.redis.away = False
    await rig.quiet()

    assert sum(rig.redis.sizes) <= MAX_GATHERED_BYTES + MAX_APPEND_BYTES
    assert rig.redis.text(rig.redis.heard) == rig.emitter.text


async def test_the_last_event_is_retried_for_a_limited_time(rig: EmitterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.worker.attempt.emitter.PARTING_SECONDS", 0.0)
    await rig.quiet()
    rig.redis.away = True
    rig.succeed("bye")
    await rig.quiet()
    assert rig.redis.kinds == ["status"]
