"""The handler of the simulation: each turn says what it must do; what the handler saw is kept as evidence."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.proof.checker.evidence import Fault, HandlerRun
from tests.proof.simulation.clock import VirtualLoop
from tests.proof.simulation.processes import Process
from tests.proof.simulation.threads import pause_thread
from turnstile import Context, Handler, Reject, Retry, Snooze, Turn

HISTORY_LIMIT = 20
DEAF_NAP_SECONDS = 0.5


class Acting:
    """Makes the handlers of one life. `runs` is where they leave their evidence."""

    def __init__(self, loop: VirtualLoop, runs: list[HandlerRun], faults: list[Fault]) -> None:
        self._loop = loop
        self._faults = faults
        self._runs = runs

    def handler(self, *, in_thread: bool) -> Handler:
        return Handler(self._act_in_thread if in_thread else self._act)

    async def _act(self, turn: Turn, ctx: Context) -> Any:
        order = turn.inputs[0]
        heard: list[str] | None = None
        if order.get("history"):
            remarks = await ctx.history(limit=HISTORY_LIMIT)
            heard = [remark.content["turn"] for remark in remarks if remark.role == "assistant"]
        with self._noted(turn, ctx, heard):
            extra = await self._do(order, ctx)
        return {"turn": str(turn.id), "fence": ctx.fence, "attempt": ctx.attempt, **extra}

    @contextmanager
    def _noted(self, turn: Turn, ctx: Context, heard: list[str] | None = None) -> Iterator[None]:
        # A process that is killed meanwhile leaves no second line.
        self._record(turn, ctx, "began", heard)
        try:
            yield
        except asyncio.CancelledError:
            self._record(turn, ctx, "cancelled")
            raise
        except Exception:
            self._record(turn, ctx, "ended")
            raise
        self._record(turn, ctx, "ended")

    async def _do(self, order: dict[str, Any], ctx: Context) -> dict[str, Any]:
        process = self._loop.current.process
        match order["do"]:
            case "sleep":
                await self._loop.pause(order["seconds"])
            case "deaf":
                end = self._loop.now + order["seconds"]
                while self._loop.now < end:
                    try:
                        await self._loop.pause(DEAF_NAP_SECONDS)
                    except asyncio.CancelledError:
                        continue
            case "block":
                self._note_blocked_loop(process, order["seconds"])
                process.block_loop(order["seconds"])
                await self._loop.pause(0.0)
            case "die":
                if ctx.attempt <= order["times"]:
                    process.die(-9)
                    await self._loop.create_future()
            case _:
                return self._at_once(order, ctx)
        return {}

    def _note_blocked_loop(self, process: Process, seconds: float) -> None:
        # No heartbeat renews a claim whose response arrives meanwhile: a lease may be lost.
        at = self._loop.now
        self._faults.append(
            Fault(at=at, until=at + seconds, kind="handler-held-the-loop", target=process.strand.name, pid=process.pid)
        )

    def _at_once(self, order: dict[str, Any], ctx: Context) -> dict[str, Any]:
        match order["do"]:
            case "echo":
                return {"say": order.get("say", "")}
            case "fail":
                raise ConnectionError("the provider is away")
            case "bug":
                raise ValueError("not worth a retry")
            case "reject":
                raise Reject("no", dead_letter=order["dead_letter"])
            case "flaky":
                if ctx.attempt <= order["times"]:
                    raise Retry(after=order.get("after"))
            case "snooze":
                # By the clock, because a snooze is not counted as an attempt.
                if self._loop.now < order["until"]:
                    raise Snooze(after=0.4)
            case "nul":
                return {"say": "a\x00b\ud800c"}
            case "unfit":
                return {"say": {1, 2}}
            case other:
                raise AssertionError(other)
        return {}

    def _act_in_thread(self, turn: Turn, ctx: Context) -> Any:
        with self._noted(turn, ctx):
            extra = self._do_in_thread(turn.inputs[0], ctx)
        return {"turn": str(turn.id), "fence": ctx.fence, "attempt": ctx.attempt, **extra}

    def _do_in_thread(self, order: dict[str, Any], ctx: Context) -> dict[str, Any]:
        match order["do"]:
            case "sleep" | "block":
                self._nap(order["seconds"], lambda: ctx.cancelled)
            case "deaf":
                self._nap(order["seconds"], lambda: False)
            case "die":
                if ctx.attempt <= order["times"]:
                    self._loop.current.process.die(-9)
                    pause_thread(None)
            case _:
                return self._at_once(order, ctx)
        return {}

    def _nap(self, seconds: float, ended: Callable[[], bool]) -> None:
        end = self._loop.now + seconds
        while (left := end - self._loop.now) > 0 and not ended():
            pause_thread(min(DEAF_NAP_SECONDS, left))

    def _record(self, turn: Turn, ctx: Context, what: str, heard: list[str] | None = None) -> None:
        self._runs.append(
            HandlerRun(
                at=self._loop.now,
                what=what,
                turn_id=str(turn.id),
                session=turn.session_id,
                attempt=ctx.attempt,
                fence=ctx.fence,
                pid=self._loop.current.process.pid,
                heard=heard,
                inputs=len(turn.inputs),
            )
        )
