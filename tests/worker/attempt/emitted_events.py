"""An emitter before a Redis stream that may be away, forget, or lose its answers."""

import asyncio
import json
from typing import Any

from tests.support.factories import CLAIMED
from tests.support.probes import until
from turnstile.streaming.event import EventKind, TurnEvent
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.emitter import Emitter


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
        """What a reader has received that listened from the start."""

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


class EmitterRig:
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


def large(n: int) -> dict[str, Any]:
    """An event of 60 KB, half as many characters."""
    return {"n": n, "x": "\u00e9" * 30_000}
