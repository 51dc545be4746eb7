"""A call that blocks, in a thread of its own.

Not `asyncio.to_thread`: the loop's few threads are the handlers' as well, and one that fills them would hold up the worker's
own calls. A task that is at work would lose its protection from scale-in, and a worker that is told to stop would not come to
its end.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def in_own_thread(call: Callable[..., Answer], *arguments: Any, **options: Any) -> Answer:
    """What `call` returns or raises. A caller that is cancelled leaves it running."""
    thread = ThreadPoolExecutor(1, "own")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, partial(call, *arguments, **options))
    finally:
        thread.shutdown(wait=False)
