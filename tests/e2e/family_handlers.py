"""The handler of the tests of children, values and compensations: each turn says what shall happen to it.

`{"do": "fan out", "orders": [...]}` starts a child for each order, joins them and answers with what they answered;
`echo` answers what its order has as `say`; `wait` answers once a file `until` is there; `bug` fails for good; `die once`
kills its worker the first time. What a turn did goes to the table `evidence`, once for each time that it did it.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.e2e.handlers import record
from turnstile import ChildFailedError, Context, Snooze, Turn, handler


@handler()
async def act(turn: Turn, ctx: Context) -> Any:
    """Does what the turn's input says."""
    await asyncio.to_thread(record, turn, ctx, "began")
    order = turn.input
    match order["do"]:
        case "echo":
            return order.get("say", "ok")
        case "wait":
            if not Path(order["until"]).exists():  # noqa: ASYNC240 - a test handler
                raise Snooze(after=0.1)
            return "waited"
        case "bug":
            raise ValueError("not worth a retry")
        case "charge":
            return await _charge(turn, ctx, order)
        case "fan out":
            return await _fan_out(turn, ctx, order)
    raise AssertionError(order)


async def _charge(turn: Turn, ctx: Context, order: dict[str, Any]) -> Any:
    async def charge() -> str:
        await asyncio.to_thread(record, turn, ctx, "charged")
        return f"receipt of fence {ctx.fence}"

    receipt = await ctx.once("charge", charge)
    if order.get("then") == "die" and not await _has_been(ctx, "died"):
        os.kill(os.getpid(), signal.SIGKILL)
    if order.get("then") == "bug":
        raise ValueError("not worth a retry")
    return receipt


async def _has_been(ctx: Context, key: str) -> bool:
    """Whether this is not the first time; survives the death of the process."""
    first: list[bool] = []
    await ctx.once(key, lambda: first.append(True))
    return not first


async def _fan_out(turn: Turn, ctx: Context, order: dict[str, Any]) -> Any:
    options = order.get("options", {})
    children = [await ctx.submit(one, **options) for one in order["orders"]]
    if order.get("then") == "die" and not await _has_been(ctx, "died"):
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.to_thread(record, turn, ctx, "joins")
    try:
        policy, on_failure = order.get("policy", "all"), order.get("on_failure", "leave")
        return await ctx.join(children, policy=policy, on_failure=on_failure)
    except ChildFailedError as failed:
        if order.get("catch"):
            return {"failed": failed.child.key, "status": failed.status, "error_class": failed.error_class}
        raise


async def undo(turn: Turn, ctx: Context) -> Any:
    """The compensation."""
    return turn.input


act_or_undo = handler(on_failed=undo)(act.function)
