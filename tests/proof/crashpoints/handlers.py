"""The handler of the cells: each turn says what it must do; what it did goes to the cell's `runs.jsonl`.

`{"do": "answer"}` answers; `retry` asks to be tried again once; `fail` is a bug in the handler; `hang` takes too long, once;
`deaf` ignores its cancellation, once; `slow` takes a while; `fan out` does something once and joins two children. What it
answers names the turn and the fence it was answered under.
"""

import asyncio
import time
from typing import Any

from tests.proof.chaos.handler_evidence import record
from turnstile import Context, Retry, Turn, handler

LONG_SECONDS = 30.0
SLOW_SECONDS = 1.0
DEAF_SECONDS = 1.5
CHILDREN = 2


def generation_of(ctx: Context) -> int:
    """The generation of the claim, which a handler of a user has no business with."""
    return int(ctx._turn.generation)  # type: ignore[attr-defined]


@handler()
async def act(turn: Turn, ctx: Context) -> Any:
    heard = [remark.content["turn"] for remark in await ctx.history() if remark.role == "assistant"]
    record(turn, ctx, "began", heard=heard)
    how = "ended"
    try:
        return await _act(turn, ctx)
    except asyncio.CancelledError:
        how = "cancelled"
        raise
    finally:
        record(turn, ctx, how)


async def _act(turn: Turn, ctx: Context) -> Any:
    order = turn.input if isinstance(turn.input, dict) else {"do": "answer"}
    match order["do"]:
        case "retry" if ctx.attempt == 1:
            raise Retry(after=0.05)
        case "fail":
            raise ValueError("not worth a retry")
        case "fail once" if generation_of(ctx) == 1:
            raise ValueError("not worth a retry")
        case "hang" if ctx.attempt == 1:
            await _wait(LONG_SECONDS)
        case "remember":
            visits = await ctx.memory.get("visits", kind="fact")
            await ctx.memory.set("visits", visits.value + 1 if visits else 1, kind="fact")
            await ctx.memory.set("draft", str(turn.id))
            await ctx.memory.get("draft")
        case "slow":
            await _wait(SLOW_SECONDS)
        case "deaf" if ctx.attempt == 1:
            await _wait_deaf(DEAF_SECONDS)
        case "fan out":
            await ctx.once("effect", _effect)
            children = [await ctx.submit({"do": "answer"}) for _ in range(CHILDREN)]
            await ctx.join(children)
    return {"turn": str(turn.id), "fence": ctx.fence}


@handler()
def act_in_thread(turn: Turn, ctx: Context) -> Any:
    """A plain function that returns an awaitable: run in a thread, then awaited."""
    record(turn, ctx, "began")
    return _answer_later(turn, ctx)


async def _answer_later(turn: Turn, ctx: Context) -> Any:
    await _wait(0.01)
    record(turn, ctx, "ended")
    return {"turn": str(turn.id), "fence": ctx.fence}


async def _effect() -> str:
    await _wait(0.01)
    return "done"


async def _wait(seconds: float) -> None:
    try:
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    except TimeoutError:
        return


async def _wait_deaf(seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            await _wait(left)
        except asyncio.CancelledError:
            continue
