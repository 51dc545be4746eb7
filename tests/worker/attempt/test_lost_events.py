"""A stream that is flushed or full, or whose responses are lost: no event comes twice, and the whole text is sent again."""

import json

from tests.support.probes import until
from tests.worker.attempt.emitted_events import EmitterRig, large
from turnstile.streaming.event import EventKind


async def test_a_lost_response_neither_repeats_nor_loses_events() -> None:
    rig = EmitterRig(cap=1000)
    await rig.quiet()
    rig.redis.loses_answer = True
    for n in range(40):
        await rig.emitter.emit(large(n))
    await rig.quiet()

    assert [json.loads(event.saying.data)["n"] for event in rig.redis.heard[1:]] == list(range(40))


async def test_after_a_flush_between_two_appends_the_rest_is_sent() -> None:
    rig = EmitterRig(cap=1000)
    await rig.emitter.emit("before, ")
    await rig.quiet()
    calls = rig.redis.calls
    for n in range(40):
        await rig.emitter.emit(large(n))
    await until(lambda: rig.redis.calls > calls)
    before = len(rig.redis.heard)
    rig.redis.stream = []
    await rig.emitter.emit("after")
    await rig.quiet()

    customs = [json.loads(event.saying.data)["n"] for event in rig.redis.heard if event.saying.kind is EventKind.CUSTOM]
    assert before < len(rig.redis.heard)
    assert customs == list(range(40))
    assert rig.redis.text(rig.redis.stream) == "before, after"


async def test_after_a_flush_the_whole_text_is_sent_under_later_numbers(rig: EmitterRig) -> None:
    await rig.emitter.emit("before, ")
    await rig.quiet()
    rig.redis.stream = []
    await rig.emitter.emit("after")
    await rig.emitter.emit({"n": 1})
    await rig.quiet()
    assert rig.redis.kinds == ["reset", "custom"]
    assert rig.redis.stream[0].id.n > 2
    assert rig.redis.text(rig.redis.stream) == "before, after"


async def test_a_stream_at_its_cap_starts_over() -> None:
    rig = EmitterRig(cap=10)
    for n in range(25):
        await rig.emitter.emit(f"{n} ")
        await rig.emitter.emit(n)
        await rig.quiet()
    assert len(rig.redis.stream) <= 11
    assert rig.redis.text(rig.redis.stream) == rig.emitter.text
    assert [event.id.n for event in rig.redis.heard] == list(range(1, len(rig.redis.heard) + 1))


async def test_a_long_text_is_sent_again_in_pieces(rig: EmitterRig) -> None:
    await rig.emitter.emit("x" * 100_000)
    await rig.quiet()
    rig.redis.stream = []
    await rig.emitter.emit("y")
    await rig.quiet()
    assert rig.redis.kinds[0] == "reset"
    assert len(rig.redis.kinds) > 3
    assert rig.redis.text(rig.redis.stream) == "x" * 100_000 + "y"
