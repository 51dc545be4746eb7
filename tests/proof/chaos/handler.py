"""The handler of the chaos run: each turn says what it must do; what the handler saw goes to a file as evidence."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from tests.proof.chaos import family_acts
from tests.proof.chaos.handler_evidence import record
from tests.proof.chaos.journal import now
from tests.proof.chaos.memory_acts import remember
from turnstile import Context, Reject, Retry, Snooze, Turn, handler
from turnstile.examples.eliza import respond
from turnstile.turn.conversation import Message

HISTORY_LIMIT = 20


def began(turn: Turn, ctx: Context, remarks: Sequence[Message] | None = None) -> None:
    """The first line about a run. `remarks`: what the handler was shown as the history."""
    heard = None if remarks is None else [_whose(one) for one in remarks if one.role == "assistant"]
    shown = None if remarks is None else [one.content for one in remarks]
    record(turn, ctx, "began", heard=heard, shown=shown, inputs=len(turn.inputs))


def _whose(reply: Message) -> str:
    """The turn that a reply says it answers. A text that was broken off is not a reply, and stands for itself."""
    return str(reply.content.get("turn")) if isinstance(reply.content, dict) else repr(reply.content)


@handler()
async def undo(turn: Turn, ctx: Context) -> Any:
    began(turn, ctx)
    try:
        extra = await family_acts.undo(turn, ctx)
    finally:
        record(turn, ctx, "ended")
    return {"turn": str(turn.id), "fence": ctx.fence, "attempt": ctx.attempt, **extra}


@handler(on_failed=undo)
async def act(turn: Turn, ctx: Context) -> Any:
    """Does what the turn's input says, and answers with what distinguishes its reply from any other."""
    # If others were merged into the turn, the first input says what shall happen.
    order = turn.inputs[0]
    began(turn, ctx, await ctx.history(limit=HISTORY_LIMIT) if order.get("history") else None)
    try:
        answer = await _act(order, turn, ctx)
    except asyncio.CancelledError:
        record(turn, ctx, "cancelled")
        raise
    except BaseException:
        record(turn, ctx, "ended")
        raise
    record(turn, ctx, "ended")
    if isinstance(answer, str):
        return answer
    return {"turn": str(turn.id), "fence": ctx.fence, "attempt": ctx.attempt, **answer}


async def _act(order: dict[str, Any], turn: Turn, ctx: Context) -> dict[str, Any] | str:
    match order["do"]:
        case deed if deed in family_acts.ACTS:
            return await family_acts.act(
                order, turn, ctx, lambda what, key, value: record(turn, ctx, what, key=key, value=value)
            )
        case "echo":
            return {"say": order.get("say", "")}
        case "sleep":
            await asyncio.sleep(order["seconds"])
        case "speak":
            for number in range(order["words"]):
                # Each word says whose it is and which: an event at the wrong reader shows by itself.
                await ctx.emit(f"{ctx.fence}.{number} ")
                await asyncio.sleep(order["pause"])
        case "remember":
            return await remember(turn, ctx, order)
        case "converse":
            return str(await respond(turn, ctx))
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
            if now() < order["until"]:
                raise Snooze(after=0.1)
        case "die":
            if ctx.attempt <= order["times"]:
                os.kill(os.getpid(), signal.SIGKILL)
        case "nul":
            return {"say": "a\x00b\ud800c"}
        case "unfit":
            return {"say": {1, 2}}
        case "deaf":
            end = time.monotonic() + order["seconds"]
            while time.monotonic() < end:
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
        case "block":
            time.sleep(order["seconds"])  # noqa: ASYNC251 - that is the fault
        case other:
            raise AssertionError(other)
    return {}
