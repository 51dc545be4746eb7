"""A handler that takes the worker's event loop for its own: the input names what it does."""

import asyncio
from typing import Any

from turnstile import Context, Turn, handler


class ForeignPolicy(asyncio.DefaultEventLoopPolicy):
    """As uvloop's is: without a watcher for the child processes of asyncio's loops."""

    def get_child_watcher(self) -> Any:
        raise NotImplementedError


asyncio.set_event_loop_policy(ForeignPolicy())


@handler
async def act(turn: Turn, ctx: Context) -> Any:
    """Does what the input says."""
    match turn.input:
        case "run a program":
            program = await asyncio.create_subprocess_exec("true")
            return await program.wait()
        case "stop the loop":
            asyncio.get_running_loop().stop()
            await asyncio.to_thread(str)
        case "cancel all tasks":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.Event().wait()
        case "wait":
            await asyncio.Event().wait()
    return "went on"
