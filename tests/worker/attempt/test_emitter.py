"""Emitting: nothing waits, nothing is lost that need not be, and what is kept is bounded, whatever becomes of Redis."""

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.factories import nest
from tests.support.probes import until
from tests.worker.attempt.test_attempt import CLAIMED
from turnstile.backends.batcher import Batcher
from turnstile.streaming.event import EventKind, TurnEvent
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.emitter import MAX_EVENT_BYTES, OPENING_SECONDS, Emitter
from turnstile.worker.attempt.event_buffer import MAX_APPEND_BYTES, MAX_GATHERED, MAX_GATHERED_BYTES
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, UnfitReplyError


class Redis:
    """A stream that may be away, forget, or lose its answers; it checks what a stream checks."""

    def __init__(self) -> None:
        self.away = False
        self.loses_answer = False
        self.superseded = False
        self.calls = 0
        self.sizes: list[int] = []
        """What was to be appended, in bytes."""
        self.stream: list[TurnEvent] = []
        self.heard: list[TurnEvent] = []
        """What a reader has been told who was always there."""

    async def append(self, append: Append) -> Appended:
        self.calls += 1
        self.sizes.append(sum(len(event.saying.data.encode()) for event in append.events))
        first, last = append.events[0], append.events[-1]
        if self.away:
            return Appended.AWAY
        if self.superseded:
            return Appended.SUPERSEDED
        before = self.stream[-1].id if self.stream else None
        if before != last.id:
            if not first.begins_anew and (before is None or before.n != first.id.n - 1):
                return Appended.LOST
            self.stream = [*([] if first.begins_anew else self.stream), *append.events]
            self.heard += [event for event in append.events if not self.heard or event.id > self.heard[-1].id]
        if self.loses_answer:
            self.loses_answer = False
            return Appended.AWAY
        return Appended.APPENDED

    @property
    def kinds(self) -> list[str]:
        return [event.saying.kind.value for event in self.stream]

    def text(self, events: list[TurnEvent]) -> str:
        text = ""
        for event in events:
            if event.saying.kind in (EventKind.DELTA, EventKind.RESET):
                said = json.loads(event.saying.data)["text"]
                text = said if event.saying.kind is EventKind.RESET else text + said
        return text


class Bench:
    """An emitter before such a Redis."""

    def __init__(self, cap: int = 100) -> None:
        self.redis = Redis()
        self.speaking: set[Emitter] = set()
        self.emitter = Emitter(CLAIMED, "key", cap, self._append, self.note)

    def _append(self, append: Append) -> "asyncio.Future[Appended]":
        return asyncio.ensure_future(self.redis.append(append))

    def note(self, emitter: Emitter, speaks: bool) -> None:
        (self.speaking.add if speaks else self.speaking.remove)(emitter)

    async def quiet(self) -> None:
        """Until all has been said."""
        await until(lambda: not (self.emitter._speaking or self.emitter._gathered))

    def succeed(self, reply: Any) -> None:
        settlement = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)
        self.emitter.settled(TurnStatus.SUCCEEDED, settlement)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_an_attempt_says_first_that_it_has_begun(bench: Bench) -> None:
    await bench.quiet()
    [event] = bench.redis.stream
    assert str(event.id) == "7-1"
    assert json.loads(event.saying.data) == {"status": "RUNNING", "attempt": 1}


async def test_an_attempt_that_takes_no_time_is_one_append(bench: Bench) -> None:
    bench.succeed("bye")
    await bench.quiet()
    assert bench.redis.kinds == ["status", "end"]
    assert bench.redis.calls == 1


async def test_once_the_handler_has_ended_its_beginning_waits_for_what_becomes_of_it(bench: Bench) -> None:
    bench.emitter.handler_ended()
    heard = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * OPENING_SECONDS, heard.set)
    await heard.wait()
    assert bench.redis.calls == 0

    bench.succeed("bye")
    await bench.quiet()
    assert bench.redis.kinds == ["status", "end"]
    assert bench.redis.calls == 1


async def test_what_is_said_at_one_moment_is_one_append() -> None:
    bench = Bench()
    for n in range(100):
        await bench.emitter.emit(f"{n} ")
    await bench.quiet()
    assert bench.redis.calls == 1
    assert bench.redis.kinds == ["status", "delta"]


async def test_events_keep_their_order_among_the_text(bench: Bench) -> None:
    for event in ("a", "b", {"n": 1}, None, "c"):
        await bench.emitter.emit(event)
    await bench.quiet()
    said = [json.loads(event.saying.data) for event in bench.redis.stream[1:]]
    assert said == [{"text": "ab"}, {"n": 1}, None, {"text": "c"}]


async def test_the_text_so_far_is_kept(bench: Bench) -> None:
    assert bench.emitter.text == ""
    for event in ("a", 1, "b\x00\ud800"):
        await bench.emitter.emit(event)
    assert bench.emitter.text == "ab"


async def test_a_thread_may_emit(bench: Bench) -> None:
    thread = threading.Thread(target=lambda: [bench.emitter.emit(f"{n} ") for n in range(1000)])
    thread.start()
    await until(lambda: not thread.is_alive())
    await bench.quiet()
    assert bench.redis.text(bench.redis.stream) == "".join(f"{n} " for n in range(1000))


@pytest.mark.parametrize("nothing", [object(), float("nan"), {1: {2}}, ["x" * MAX_EVENT_BYTES], nest(1, 201)])
async def test_what_is_no_event_is_refused_where_it_is_said(bench: Bench, nothing: Any) -> None:
    with pytest.raises((ValueError, UnfitReplyError)):
        bench.emitter.emit(nothing)


async def test_an_empty_text_says_nothing(bench: Bench) -> None:
    await bench.emitter.emit("")
    await bench.quiet()
    assert bench.redis.kinds == ["status"]


async def test_with_redis_away_nothing_waits_and_all_is_said_later(bench: Bench) -> None:
    await bench.quiet()
    bench.redis.away = True
    await bench.emitter.emit("Hello, ")
    await until(lambda: bench.redis.calls == 2)
    await bench.emitter.emit("world")
    bench.redis.away = False
    await bench.quiet()
    assert bench.redis.text(bench.redis.stream) == "Hello, world"
    assert [event.id.n for event in bench.redis.stream] == [1, 2, 3]


async def test_what_waits_for_redis_is_bounded_and_the_text_is_whole(bench: Bench) -> None:
    bench.redis.away = True
    for n in range(3 * MAX_GATHERED):
        await bench.emitter.emit(f"{n} ")
        await bench.emitter.emit(n)
        if n == 5:
            await until(lambda: bench.redis.calls)
    assert len(bench.emitter._gathered) <= MAX_GATHERED
    bench.redis.away = False
    await bench.quiet()
    assert (
        bench.redis.text(bench.redis.heard) == bench.emitter.text == "".join(f"{n} " for n in range(3 * MAX_GATHERED))
    )


async def test_what_overflows_before_the_first_word_got_through_still_begins_with_it() -> None:
    bench = Bench()
    for n in range(2 * MAX_GATHERED):
        await bench.emitter.emit(f"{n} ")
        await bench.emitter.emit(n)
    await bench.quiet()
    assert bench.redis.kinds[:2] == ["status", "reset"]
    assert bench.redis.text(bench.redis.stream) == bench.emitter.text


def large(n: int) -> dict[str, Any]:
    """An event of 60 KB, half as many characters."""
    return {"n": n, "x": "\u00e9" * 30_000}


async def test_what_is_large_is_said_in_portions_and_in_order() -> None:
    bench = Bench(cap=1000)
    for n in range(100):
        await bench.emitter.emit(large(n))
    bench.succeed("bye")
    await bench.quiet()

    said = [json.loads(event.saying.data)["n"] for event in bench.redis.heard[1:-1]]
    assert (said, bench.redis.kinds[-1]) == (list(range(100)), "end")
    assert max(bench.redis.sizes) <= MAX_APPEND_BYTES
    assert bench.redis.calls < 10


async def test_a_portion_whose_answer_was_lost_doubles_nothing_and_loses_nothing() -> None:
    bench = Bench(cap=1000)
    await bench.quiet()
    bench.redis.loses_answer = True
    for n in range(40):
        await bench.emitter.emit(large(n))
    await bench.quiet()

    assert [json.loads(event.saying.data)["n"] for event in bench.redis.heard[1:]] == list(range(40))


async def test_after_a_flush_between_two_portions_all_that_was_not_said_is() -> None:
    bench = Bench(cap=1000)
    await bench.emitter.emit("before, ")
    await bench.quiet()
    calls = bench.redis.calls
    for n in range(40):
        await bench.emitter.emit(large(n))
    await until(lambda: bench.redis.calls > calls)
    told = len(bench.redis.heard)
    bench.redis.stream = []
    await bench.emitter.emit("after")
    await bench.quiet()

    customs = [
        json.loads(event.saying.data)["n"] for event in bench.redis.heard if event.saying.kind is EventKind.CUSTOM
    ]
    assert told < len(bench.redis.heard)
    assert customs == list(range(40))
    assert [event.id.n for event in bench.redis.heard] == list(range(1, len(bench.redis.heard) + 1))
    assert bench.redis.text(bench.redis.stream) == "before, after"


async def test_of_large_events_fewer_wait_for_redis(bench: Bench) -> None:
    await bench.quiet()
    bench.redis.away = True
    for n in range(MAX_GATHERED // 2):
        await bench.emitter.emit(f"{n} ")
        await bench.emitter.emit(large(n))
    bench.redis.away = False
    await bench.quiet()

    assert sum(bench.redis.sizes) <= MAX_GATHERED_BYTES + MAX_APPEND_BYTES
    assert bench.redis.text(bench.redis.heard) == bench.emitter.text


async def test_a_lost_answer_doubles_nothing(bench: Bench) -> None:
    await bench.quiet()
    bench.redis.loses_answer = True
    await bench.emitter.emit("once")
    await bench.quiet()
    await bench.emitter.emit(" more")
    await bench.quiet()
    assert bench.redis.text(bench.redis.heard) == "once more"
    assert [event.id.n for event in bench.redis.heard] == [1, 2, 3]


async def test_after_a_flush_the_numbers_go_on_and_the_text_is_said_anew(bench: Bench) -> None:
    await bench.emitter.emit("before, ")
    await bench.quiet()
    bench.redis.stream = []
    await bench.emitter.emit("after")
    await bench.emitter.emit({"n": 1})
    await bench.quiet()
    assert bench.redis.kinds == ["reset", "custom"]
    assert [event.id.n for event in bench.redis.heard] == [1, 2, 3, 4]
    assert bench.redis.text(bench.redis.stream) == "before, after"


async def test_numbers_that_somebody_may_have_seen_are_not_given_again(bench: Bench) -> None:
    await bench.quiet()
    bench.redis.loses_answer = True
    await bench.emitter.emit("seen")
    await until(lambda: bench.redis.calls == 2)
    bench.redis.stream = []
    await bench.quiet()
    assert [str(event.id) for event in bench.redis.stream] == ["7-3"]
    assert bench.redis.text(bench.redis.heard) == "seen"


async def test_a_stream_at_its_cap_begins_anew() -> None:
    bench = Bench(cap=10)
    for n in range(25):
        await bench.emitter.emit(f"{n} ")
        await bench.emitter.emit(n)
        await bench.quiet()
    assert len(bench.redis.stream) <= 11
    assert bench.redis.text(bench.redis.stream) == bench.emitter.text
    assert [event.id.n for event in bench.redis.heard] == list(range(1, len(bench.redis.heard) + 1))


async def test_a_long_text_is_said_anew_in_pieces(bench: Bench) -> None:
    await bench.emitter.emit("x" * 100_000)
    await bench.quiet()
    bench.redis.stream = []
    await bench.emitter.emit("y")
    await bench.quiet()
    assert bench.redis.kinds[0] == "reset"
    assert len(bench.redis.kinds) > 3
    assert bench.redis.text(bench.redis.stream) == "x" * 100_000 + "y"


async def test_text_beyond_what_a_reply_may_have_is_not_said(bench: Bench) -> None:
    half = "x" * (MAX_REPLY_CHARACTERS // 2)
    for text in (half, half, "y", "z"):
        await bench.emitter.emit(text)
    assert bench.emitter.text == half + half


async def test_who_falls_silent_leaves_an_append_that_waits_as_it_is() -> None:
    # As the worker has it: the appends of all its turns go out together, and this one waits for a flush that takes long.
    answers, flushed = asyncio.Event(), list[Append]()

    async def flush(appends: Sequence[Append]) -> list[Appended]:
        await answers.wait()
        flushed.extend(replace(append, events=list(append.events)) for append in appends)
        return [Appended.APPENDED] * len(appends)

    bench, appends = Bench(), Batcher[Append, Appended](flush, limit=9)
    other = Emitter(CLAIMED, "other", 100, appends, bench.note)
    await other.emit("first")
    await until(lambda: other._said and not appends._waiting)
    emitter = Emitter(CLAIMED, "key", 100, appends, bench.note)
    await emitter.emit("waits")
    await until(lambda: emitter._said)

    emitter.fall_silent()
    answers.set()

    await until(lambda: len(flushed) == 2)
    assert [event.saying.kind.value for event in flushed[1].events] == ["status", "delta"]


async def test_who_is_superseded_falls_silent(bench: Bench) -> None:
    await bench.quiet()
    bench.redis.superseded = True
    await bench.emitter.emit("late")
    await bench.quiet()
    calls = bench.redis.calls
    await bench.emitter.emit("later")
    bench.succeed("late")
    assert not bench.emitter._speaking
    assert bench.redis.calls == calls


class Compared(float):
    """As numpy's numbers: what a comparison with one says is no bool, and no JSON."""

    __hash__ = float.__hash__

    def __eq__(self, _: object) -> Any:
        return object()


@pytest.mark.parametrize(
    ("reply", "said"), [("Hello", True), ("Hello!", False), ({"text": "Hello"}, False), (Compared(1.5), False)]
)
async def test_the_end_says_whether_the_reply_has_been_said(bench: Bench, reply: Any, said: bool) -> None:
    await bench.emitter.emit("Hello")
    bench.succeed(reply)
    await bench.quiet()
    assert json.loads(bench.redis.stream[-1].saying.data) == {"status": "SUCCEEDED", "said": said}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (TurnStatus.SUCCEEDED, "end"),
        (TurnStatus.CANCELED, "end"),
        (TurnStatus.FAILED, "error"),
        (TurnStatus.PENDING, "status"),
    ],
)
async def test_after_the_last_word_nothing_is_heard(bench: Bench, status: TurnStatus, kind: str) -> None:
    settlement = Settlement(status=status, outcome=AttemptOutcome.RETRIED, after_seconds=1.5)
    bench.emitter.settled(status, settlement)
    await bench.emitter.emit("too late")
    bench.emitter.settled(status, replace(settlement))
    await bench.quiet()
    assert bench.redis.kinds == ["status", kind]


async def test_the_last_word_is_tried_for_a_while_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.worker.attempt.emitter.PARTING_SECONDS", 0.0)
    await bench.quiet()
    bench.redis.away = True
    bench.succeed("bye")
    await bench.quiet()
    assert bench.redis.kinds == ["status"]
