"""An emitter: what is said, in which order, and what the end says."""

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.emitting import EmitterRig
from tests.support.factories import CLAIMED, nest
from tests.support.probes import until
from turnstile.backends.batcher import Batcher
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.emitter import MAX_EVENT_BYTES, OPENING_SECONDS, Emitter
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, UnfitReplyError


async def test_an_attempt_says_first_that_it_has_begun(rig: EmitterRig) -> None:
    await rig.quiet()
    [event] = rig.redis.stream
    assert str(event.id) == "7-1"
    assert json.loads(event.saying.data) == {"status": "RUNNING", "attempt": 1}


async def test_an_attempt_that_takes_no_time_is_one_append(rig: EmitterRig) -> None:
    rig.succeed("bye")
    await rig.quiet()
    assert rig.redis.kinds == ["status", "end"]
    assert rig.redis.calls == 1


async def test_once_the_handler_has_ended_its_beginning_waits_for_what_becomes_of_it(rig: EmitterRig) -> None:
    rig.emitter.handler_ended()
    heard = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * OPENING_SECONDS, heard.set)
    await heard.wait()
    assert rig.redis.calls == 0

    rig.succeed("bye")
    await rig.quiet()
    assert rig.redis.kinds == ["status", "end"]
    assert rig.redis.calls == 1


async def test_what_is_said_at_one_moment_is_one_append() -> None:
    rig = EmitterRig()
    for n in range(100):
        await rig.emitter.emit(f"{n} ")
    await rig.quiet()
    assert rig.redis.calls == 1
    assert rig.redis.kinds == ["status", "delta"]


async def test_events_keep_their_order_among_the_text(rig: EmitterRig) -> None:
    for event in ("a", "b", {"n": 1}, None, "c"):
        await rig.emitter.emit(event)
    await rig.quiet()
    said = [json.loads(event.saying.data) for event in rig.redis.stream[1:]]
    assert said == [{"text": "ab"}, {"n": 1}, None, {"text": "c"}]


async def test_the_text_so_far_is_kept(rig: EmitterRig) -> None:
    assert rig.emitter.text == ""
    for event in ("a", 1, "b\x00\ud800"):
        await rig.emitter.emit(event)
    assert rig.emitter.text == "ab"


async def test_a_thread_may_emit(rig: EmitterRig) -> None:
    thread = threading.Thread(target=lambda: [rig.emitter.emit(f"{n} ") for n in range(1000)])
    thread.start()
    await until(lambda: not thread.is_alive())
    await rig.quiet()
    assert rig.redis.text(rig.redis.stream) == "".join(f"{n} " for n in range(1000))


@pytest.mark.parametrize("nothing", [object(), float("nan"), {1: {2}}, ["x" * MAX_EVENT_BYTES], nest(1, 201)])
async def test_what_is_no_event_is_refused_where_it_is_said(rig: EmitterRig, nothing: Any) -> None:
    with pytest.raises((ValueError, UnfitReplyError)):
        rig.emitter.emit(nothing)


async def test_an_empty_text_says_nothing(rig: EmitterRig) -> None:
    await rig.emitter.emit("")
    await rig.quiet()
    assert rig.redis.kinds == ["status"]


async def test_text_beyond_what_a_reply_may_have_is_not_said(rig: EmitterRig) -> None:
    half = "x" * (MAX_REPLY_CHARACTERS // 2)
    for text in (half, half, "y", "z"):
        await rig.emitter.emit(text)
    assert rig.emitter.text == half + half


async def test_who_falls_silent_leaves_an_append_that_waits_as_it_is() -> None:
    # As the worker has it: the appends of all its turns go out together, and this one waits for a flush that takes long.
    answers, flushed = asyncio.Event(), list[Append]()

    async def flush(appends: Sequence[Append]) -> list[Appended]:
        await answers.wait()
        flushed.extend(replace(append, events=list(append.events)) for append in appends)
        return [Appended.APPENDED] * len(appends)

    rig, appends = EmitterRig(), Batcher[Append, Appended](flush, limit=9)
    other = Emitter(CLAIMED, "other", 100, appends, rig.note)
    await other.emit("first")
    await until(lambda: other._said and not appends._waiting)
    emitter = Emitter(CLAIMED, "key", 100, appends, rig.note)
    await emitter.emit("waits")
    await until(lambda: emitter._said)

    emitter.fall_silent()
    answers.set()

    await until(lambda: len(flushed) == 2)
    assert [event.saying.kind.value for event in flushed[1].events] == ["status", "delta"]


async def test_who_is_superseded_falls_silent(rig: EmitterRig) -> None:
    await rig.quiet()
    rig.redis.superseded = True
    await rig.emitter.emit("late")
    await rig.quiet()
    calls = rig.redis.calls
    await rig.emitter.emit("later")
    rig.succeed("late")
    assert not rig.emitter._speaking
    assert rig.redis.calls == calls


class Compared(float):
    """As numpy's numbers: what a comparison with one says is no bool, and no JSON."""

    __hash__ = float.__hash__

    def __eq__(self, _: object) -> Any:
        return object()


@pytest.mark.parametrize(
    ("reply", "said"), [("Hello", True), ("Hello!", False), ({"text": "Hello"}, False), (Compared(1.5), False)]
)
async def test_the_end_says_whether_the_reply_has_been_said(rig: EmitterRig, reply: Any, said: bool) -> None:
    await rig.emitter.emit("Hello")
    rig.succeed(reply)
    await rig.quiet()
    assert json.loads(rig.redis.stream[-1].saying.data) == {"status": "SUCCEEDED", "said": said}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (TurnStatus.SUCCEEDED, "end"),
        (TurnStatus.CANCELED, "end"),
        (TurnStatus.FAILED, "error"),
        (TurnStatus.PENDING, "status"),
    ],
)
async def test_after_the_last_word_nothing_is_heard(rig: EmitterRig, status: TurnStatus, kind: str) -> None:
    settlement = Settlement(status=status, outcome=AttemptOutcome.RETRIED, after_seconds=1.5)
    rig.emitter.settled(status, settlement)
    await rig.emitter.emit("too late")
    rig.emitter.settled(status, replace(settlement))
    await rig.quiet()
    assert rig.redis.kinds == ["status", kind]
