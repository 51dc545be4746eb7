"""An emitter: which events it appends, in which order, and what the last one says."""

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED, nest
from tests.support.probes import until
from tests.worker.attempt.emitted_events import EmitterRig
from turnstile.backends.batcher import Batcher
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.emitter import MAX_EVENT_BYTES, OPENING_SECONDS, Emitter
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, UnfitReplyError


async def test_the_first_event_says_that_the_attempt_has_begun(rig: EmitterRig) -> None:
    await rig.quiet()
    [event] = rig.redis.stream
    assert str(event.id) == "7-1"
    assert json.loads(event.saying.data) == {"status": "RUNNING", "attempt": 1}


async def test_after_the_handlers_end_the_first_event_waits_for_the_settle(rig: EmitterRig) -> None:
    rig.emitter.handler_ended()
    heard = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * OPENING_SECONDS, heard.set)
    await heard.wait()
    assert rig.redis.calls == 0

    rig.succeed("bye")
    await rig.quiet()
    assert rig.redis.kinds == ["status", "end"]
    assert rig.redis.calls == 1


async def test_events_of_the_same_moment_are_one_append() -> None:
    rig = EmitterRig()
    for n in range(100):
        await rig.emitter.emit(f"{n} ")
    await rig.quiet()
    assert rig.redis.calls == 1
    assert rig.redis.kinds == ["status", "delta"]


async def test_events_and_texts_keep_their_order(rig: EmitterRig) -> None:
    for event in ("a", "b\x00\ud800", {"n": 1}, None, "", "c"):
        await rig.emitter.emit(event)
    await rig.quiet()
    said = [json.loads(event.saying.data) for event in rig.redis.stream[1:]]
    assert said == [{"text": "ab"}, {"n": 1}, None, {"text": "c"}]
    assert rig.emitter.text == "abc"


async def test_a_thread_may_emit(rig: EmitterRig) -> None:
    thread = threading.Thread(target=lambda: [rig.emitter.emit(f"{n} ") for n in range(1000)])
    thread.start()
    await until(lambda: not thread.is_alive())
    await rig.quiet()
    assert rig.redis.text(rig.redis.stream) == "".join(f"{n} " for n in range(1000))


@pytest.mark.parametrize("nothing", [object(), ["x" * MAX_EVENT_BYTES], nest(1, 201)])
async def test_an_invalid_event_is_refused_by_emit(rig: EmitterRig, nothing: Any) -> None:
    with pytest.raises((ValueError, UnfitReplyError)):
        rig.emitter.emit(nothing)


async def test_the_error_of_an_event_that_is_not_json_says_so(rig: EmitterRig) -> None:
    with pytest.raises(UnfitReplyError, match="the event is not JSON"):
        rig.emitter.emit(object())


async def test_text_beyond_the_limit_of_a_reply_is_not_appended(rig: EmitterRig) -> None:
    half = "x" * (MAX_REPLY_CHARACTERS // 2)
    for text in (half, half, "y", "z"):
        await rig.emitter.emit(text)
    assert rig.emitter.text == half + half


async def test_an_emitter_that_falls_silent_does_not_change_an_append_under_way() -> None:
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


async def test_a_defect_is_a_line_that_quotes_no_event(rig: EmitterRig) -> None:
    async def fail(_: object) -> list[Appended]:
        raise UnicodeEncodeError("utf-8", "what the user said", 0, 1, "surrogates not allowed")

    emitter = Emitter(CLAIMED, "key", 100, Batcher[Append, Appended](fail, limit=9), rig.note)

    with capture_logs() as lines:
        await emitter.emit("what the user said")
        await until(lambda: lines)

    assert (lines[0]["event"], lines[0]["error_class"]) == ("events.failed", "UnicodeEncodeError")
    assert "said" not in repr(lines)


async def test_a_superseded_emitter_falls_silent(rig: EmitterRig) -> None:
    await rig.quiet()
    rig.redis.superseded = True
    await rig.emitter.emit("late")
    await rig.quiet()
    calls = rig.redis.calls
    await rig.emitter.emit("later")
    rig.succeed("late")
    assert not rig.emitter._speaking
    assert rig.redis.calls == calls


@pytest.mark.parametrize(("reply", "said"), [("Hello", True), ("Hello!", False), (1.5, False)])
async def test_the_last_event_says_whether_the_reply_was_emitted(rig: EmitterRig, reply: Any, said: bool) -> None:
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
async def test_no_event_follows_the_last_one(rig: EmitterRig, status: TurnStatus, kind: str) -> None:
    settlement = Settlement(status=status, outcome=AttemptOutcome.RETRIED, after_seconds=1.5)
    rig.emitter.settled(status, settlement)
    await rig.emitter.emit("too late")
    rig.emitter.settled(status, replace(settlement))
    await rig.quiet()
    assert rig.redis.kinds == ["status", kind]
