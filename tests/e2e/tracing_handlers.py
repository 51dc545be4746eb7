"""Handlers that record spans of their own, or look at what is imported, or say canaries."""

import asyncio
import os
import sys
from typing import Any

import psycopg
from opentelemetry import trace

from turnstile import Context, Retry, Snooze, Turn, handler

CANARY = "c4n4ry"
"""Stands in every text that a user, a handler or an operator of these tests says."""

RECORDING = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "turnstile.telemetry.spans")
"""Not all of the SDK: redis-py imports its metrics where it is installed."""

tracer = trace.get_tracer("tests")


@handler()
async def work(turn: Turn, ctx: Context) -> Any:
    """Records a span `work` of its own; a turn that says `modules` is answered with the imported modules that record traces."""
    if turn.input == "modules":
        return sorted(name for name in sys.modules if name.startswith(RECORDING))
    with tracer.start_as_current_span("work"):
        return turn.traceparent


@handler()
def work_in_thread(turn: Turn, ctx: Context) -> Any:
    """The same in a thread."""
    with tracer.start_as_current_span("work"):
        return turn.traceparent


@handler(retry_on=(ConnectionError,))
async def sing(turn: Turn, ctx: Context) -> Any:
    """Does what `do` says, with a canary in every text."""
    await ctx.emit(f"{CANARY} emitted")
    match turn.input["do"]:
        case "answer":
            return f"{CANARY} reply"
        case "retry" if ctx.attempt == 1:
            raise ConnectionError(f"{CANARY} error")
        case "ask for a retry" if ctx.attempt == 1:
            raise Retry(f"{CANARY} retry", after=0.01)
        case "snooze" if not await _has_been(ctx):
            raise Snooze(f"{CANARY} snooze", after=0.01)
        case "fail":
            raise ValueError(f"{CANARY} error")
        case "wait":
            await asyncio.Event().wait()
        case "be refused":
            return {f"{CANARY} reply": object()}
        case "use the database":
            with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
                connection.execute("SELECT %s::int", [f"{CANARY} value"])
    return f"{CANARY} reply"


async def _has_been(ctx: Context) -> bool:
    first: list[bool] = []
    await ctx.once("first", lambda: first.append(True))
    return not first
