"""The handler of the end-to-end tests: each turn says what shall happen to it. What it did goes to a table as evidence.

`{"do": "echo"}` answers; `sleep` takes `seconds`; `fail` raises; `flaky` fails `times` times; `die` kills its worker;
`nul` answers with what Postgres refuses; `deaf` ignores its cancellation; `block` blocks the event loop; `history`
answers with what was said before; `spend` reports its use of a model; `remember` uses the working memory; `learn`
replaces a fact; `speak` emits its `words`,
and hangs before the last of them in attempt `hang_in_attempt`; `snooze` puts the turn off for `seconds`.
"""

import asyncio
import os
import signal
import threading
import time
from typing import Any

import psycopg
import structlog

from tests.support.outside import outside
from turnstile import Context, Retry, Snooze, Turn, handler

log = structlog.get_logger("tests.handler")


def record(turn: Turn, ctx: Context, *what: str) -> None:
    """Evidence that can't be lost with the process: committed rows."""
    with psycopg.connect(outside(os.environ["DATABASE_URL"]), autocommit=True) as connection:
        connection.execute(
            "INSERT INTO evidence (turn_id, session_id, seq, attempt, fence, pid, what, at)"
            " SELECT %s, %s, %s, %s, %s, %s, unnest(%s::text[]), clock_timestamp()",
            (turn.id, turn.session_id, turn.seq, ctx.attempt, ctx.fence, os.getpid(), list(what)),
        )


@handler(retry_on=(psycopg.OperationalError,))
async def act(turn: Turn, ctx: Context) -> Any:
    """Does what the turn's input says."""
    order = turn.input if isinstance(turn.input, dict) else {"do": "echo", "say": turn.input}
    try:
        await asyncio.to_thread(record, turn, ctx, "began")
        reply = await _act(order, ctx)
    except asyncio.CancelledError:
        # First to the log: a shutdown without grace leaves no time that a loaded machine needs for a connection.
        log.info("handler.cancelled", reason=ctx.cancel_reason)
        await asyncio.to_thread(record, turn, ctx, "cancelled", f"stopped: {ctx.cancel_reason}")
        raise
    await asyncio.to_thread(record, turn, ctx, "ended")
    return reply


async def _act(order: dict[str, Any], ctx: Context) -> Any:
    match order["do"]:
        case "echo":
            return order.get("say", "ok")
        case "sleep":
            await asyncio.sleep(order["seconds"])
            return "slept"
        case "snooze":
            raise Snooze("the provider says 429", after=order["seconds"])
        case "fail":
            raise ConnectionError("the provider is away")
        case "bug":
            raise ValueError("not worth a retry")
        case "flaky":
            if ctx.attempt <= order["times"]:
                raise Retry(after=0.05)
            return f"after {ctx.attempt}"
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "nul":
            return "a\x00b\ud800c"
        case "deaf":
            for _ in range(int(order["seconds"] * 20)):
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
            return "too late"
        case "block":
            time.sleep(order["seconds"])  # noqa: ASYNC251 - that is the fault
            return "unblocked"
        case "remember":
            return await _remember(order, ctx)
        case "learn":
            return await _learn(order["say"], ctx)
        case "speak":
            *words, last = order["words"]
            for word in words:
                await ctx.emit(word)
            if ctx.attempt == order.get("hang_in_attempt"):
                await asyncio.Event().wait()
            await ctx.emit(last)
            return "".join([*words, last])
        case "spend":
            ctx.report_usage(model="small", input_tokens=10, output_tokens=5, cost_dollars=0.25)
            return "spent"
        case "history":
            return [remark.content for remark in await ctx.history(limit=order.get("limit", 20))]
    raise AssertionError(order)


async def _remember(order: dict[str, Any], ctx: Context) -> Any:
    """Counts its calls in a fact, and in an item that is not durable."""
    before = await ctx.memory.get("calls", kind="fact")
    calls = (before.value if before else 0) + 1
    written = await ctx.memory.set(
        "calls", calls, kind="fact", expected_version=before.version if before else 0, tags=["counter"]
    )
    draft = await ctx.memory.get("draft")
    await ctx.memory.set("draft", order.get("say"), context="letter")
    return {"calls": calls, "kept": bool(written), "draft": draft and draft.value}


@handler()
def remember_in_thread(turn: Turn, ctx: Context) -> Any:
    """The same from a thread."""
    return ctx.wait_for(_remember(turn.input, ctx))


@handler()
def compute_in_thread(turn: Turn, ctx: Context) -> Any:
    """Whether a plain function of `ctx.once` runs on the event loop's thread."""
    return ctx.wait_for(ctx.once("where", lambda: threading.current_thread() is threading.main_thread()))


@handler()
def act_in_thread(turn: Turn, ctx: Context) -> str:
    """A plain function: cancelled by looking."""
    for _ in range(200):
        if ctx.cancelled:
            record(turn, ctx, "saw its cancellation")
            return "cancelled"
        time.sleep(0.05)
    return "never cancelled"


async def _learn(word: str, ctx: Context) -> Any:
    """Replaces a fact by the word: the fact as it was and as it is then, and whether an item that is not a fact was kept."""
    before = await ctx.memory.get("word", kind="fact")
    await ctx.memory.set("word", word, kind="fact")
    after = await ctx.memory.get("word", kind="fact")
    kept = await ctx.memory.set("draft", word)
    return {"before": before and before.value, "after": after and after.value, "kept": bool(kept)}
