"""Attempts of handlers, without a worker around them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from types import SimpleNamespace
from typing import Any, cast

from tests.support.factories import CLAIMED
from turnstile.handlers.handler import Handler
from turnstile.streaming.stream import Append, Appended
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.attempt.attempt_context import TurnContext, turn_for_handler
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.attempt.outcome import Outcome, StopReason

THREADS = 2
LONG = 60.0
"""Seconds that no test waits for."""


class Bench:
    """Makes attempts of handlers, and keeps what a test looks at."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self.began = asyncio.Event()
        self.appended: list[Append] = []
        emitter = Emitter(CLAIMED, "k", 100, self._append, lambda *_: None)
        nothing = cast("Any", None)
        self.context = TurnContext(
            CLAIMED,
            LONG,
            nothing,
            history=nothing,
            memory=nothing,
            emitter=emitter,
            values=cast("Any", SimpleNamespace(once=None)),
            children=cast("Any", SimpleNamespace(submit=None, join=None)),
        )

    def _append(self, append: Append) -> "asyncio.Future[Appended]":
        self.appended.append(append)
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.APPENDED)
        return answered

    def attempt(self, function: Callable[[Any, Any], Any], retry_on: tuple[type[BaseException], ...] = ()) -> Attempt:
        return Attempt(Handler(function, retry_on=retry_on), turn_for_handler(CLAIMED), self.context, self._threads)

    def deaf_until(self, release: asyncio.Event) -> Callable[..., Any]:
        """A handler that ignores its cancellation until `release` is set."""

        async def deaf(*_: Any) -> None:
            self.began.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        return deaf

    async def outcome_of(self, function: Callable[[Any, Any], Any]) -> Outcome:
        """The outcome of an attempt that has all the time."""
        return await self.attempt(function).run(LONG, LONG)

    async def stopped(self, attempt: Attempt, reason: StopReason, grace: float = LONG) -> Outcome:
        """The outcome of an attempt that is stopped once its handler has begun."""
        running = asyncio.create_task(attempt.run(LONG, grace))
        await self.began.wait()
        attempt.stop(reason)
        return await running


async def wait_forever() -> None:
    await asyncio.Event().wait()
