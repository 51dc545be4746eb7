"""Runs a blocking call in a thread of its own.

Not `asyncio.to_thread`: handlers use the loop's few threads as well, and a handler that fills them would delay the worker's own
calls. A busy ECS task would lose its scale-in protection, and a worker could not finish its shutdown.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_own_thread(call: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Returns or raises what `call` does. If the caller is cancelled, the call goes on in its thread."""
    thread = ThreadPoolExecutor(1, "own")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, partial(call, *arguments, **options))
    finally:
        thread.shutdown(wait=False)
