"""What happens at a wrapped await: nothing, except in the one process in which a fault is to strike.

The faults:

- KILL: SIGKILL of the own process, before what is awaited has begun.
- STOP: SIGSTOP. The harness continues it after all time-outs have passed and the rescuer has done the work; then the
  sleeper goes on where it was, with all that it believed.
- EXCEPTION: a bug. RuntimeError is raised instead of the await.
- HANG: the await does not come back, unless it is cancelled.
- LOST: what is awaited is done, and its answer is lost: the error that this shows at that layer is raised afterwards.

Two more are for preludes only, to bring the product to where an await is that nothing else leads to: REFUSED (Postgres
refuses the statement, nothing is done) and CUT (nothing is done, and the connection's error is raised).
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Make = Callable[[], Awaitable[Any]]


class FaultKind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    EXCEPTION = "exception"
    HANG = "hang"
    LOST = "lost"
    REFUSED = "refused"
    CUT = "cut"


FAULTS = (FaultKind.KILL, FaultKind.STOP, FaultKind.EXCEPTION, FaultKind.HANG, FaultKind.LOST)


class CrashPointError(RuntimeError):
    """The bug that EXCEPTION stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault at the first passing of a point, or at the first after another point has been passed."""

    point: str
    fault: FaultKind
    after: str | None = None
    answered_by: str = ""
    """postgres, redis or sqs: whose answer is lost."""
    flush: bool = False
    """The cell's keys in Redis are deleted at the same moment."""


class Plan:
    """The strikes of one process, in order: each waits for those before it."""

    def __init__(
        self, strikes: list[Strike], report: int, flush_redis: Callable[[], None], announce: Sequence[str]
    ) -> None:
        self._pending = strikes
        self._report = report
        self._flush_redis = flush_redis
        self._announce = announce
        self._passed: set[str] = set()

    def due(self, name: str) -> Strike | None:
        """The strike for this passing, which it uses up."""
        first = name not in self._passed
        self._passed.add(name)
        if first and name in self._announce:
            self.report(passed=name)
        if not self._pending:
            return None
        strike = self._pending[0]
        if strike.point != name or (strike.after is not None and strike.after not in self._passed):
            return None
        return self._pending.pop(0)

    def strike(self, strike: Strike) -> None:
        if strike.flush:
            self._flush_redis()
        self.report(struck=strike.point, last=not self._pending)

    def report(self, **news: Any) -> None:
        os.write(self._report, json.dumps({"at": time.time(), **news}).encode() + b"\n")


_plan: Plan | None = None


def arm(plan: Plan | None) -> None:
    """From now on the awaits of this process go by the plan."""
    global _plan
    _plan = plan


async def pass_await(name: str, make: Make, undo: Callable[[Exception], Awaitable[Any]] | None = None) -> Any:
    """The answer of `make()`, unless a fault strikes here. `undo` gives back what was taken by an await whose answer is lost."""
    strike = None if _plan is None else _plan.due(name)
    if _plan is None or strike is None:
        return await make()
    if strike.fault is FaultKind.LOST:
        return await _lose_answer(_plan, strike, make, undo)
    _plan.strike(strike)
    match strike.fault:
        case FaultKind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case FaultKind.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case FaultKind.HANG:
            await asyncio.get_running_loop().create_future()
        case FaultKind.REFUSED:
            from psycopg.errors import DataException

            raise DataException("a statement that Postgres refuses")
        case FaultKind.CUT:
            raise _lost_answer(strike)
        case _:
            raise CrashPointError(f"a bug at {name}")
    return await make()


async def _lose_answer(
    plan: Plan, strike: Strike, make: Make, undo: Callable[[Exception], Awaitable[Any]] | None
) -> Any:
    answer: Any = None
    try:
        answer = await make()
    finally:
        plan.strike(strike)
    shown = _lost_answer(strike, answer)
    if not isinstance(shown, Exception):
        return shown
    if undo is not None:
        with suppress(Exception):
            await undo(shown)
    raise shown


def _lost_answer(strike: Strike, answer: Any = None) -> Any:
    """What a caller at this point sees of the lost response `answer`: an error, or the value that stands for it."""
    from psycopg import OperationalError
    from redis.exceptions import ConnectionError as RedisConnectionError

    from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError
    from turnstile.worker.session_lock import Guard, Release

    module, _, callee = strike.point.rpartition(": ")
    match strike.answered_by, callee:
        case "redis", "run":
            # None: Redis was not asked, because it had not responded before. There is no answer to lose.
            return answer and [RedisConnectionError("the answer is lost")] * len(answer)
        case "redis", "acquire" | "_lock":
            return Guard.UNANSWERED
        case "redis", "release" | "_release":
            return Release.UNKNOWN
        case "redis", _:
            return None
        case "sqs", _:
            return QueueUnavailableError("the answer is lost")
        case "postgres", _ if module.startswith("turnstile.backends.postgres.database."):
            return OperationalError("the answer is lost")
        case "postgres", _:
            return DatabaseUnavailableError("the answer is lost")
    raise ValueError(f"no server answers at {strike.point}")


class pass_with:  # noqa: N801 - stands where a function's name would
    """`async with`: two awaits, at entering and at leaving."""

    def __init__(self, entering: str, leaving: str, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._entering, self._session_release, self._make = entering, leaving, make

    async def __aenter__(self) -> Any:
        self._inner = self._make()

        async def undo(error: Exception) -> None:
            await self._inner.__aexit__(type(error), error, None)

        return await pass_await(self._entering, self._inner.__aenter__, undo)

    async def __aexit__(self, *error: Any) -> Any:
        return await pass_await(self._session_release, lambda: self._inner.__aexit__(*error))


class pass_for:  # noqa: N801
    """`async for`: an await for each step."""

    def __init__(self, name: str, make: Callable[[], AsyncIterator[Any]]) -> None:
        self._name, self._make = name, make

    def __aiter__(self) -> "pass_for":
        self._inner = self._make().__aiter__()
        return self

    async def __anext__(self) -> Any:
        return await pass_await(self._name, self._inner.__anext__)
