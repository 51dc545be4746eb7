"""Calls that run while the heartbeat goes on beating: one at a time. A call that comes while another is under way is
skipped."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from turnstile.telemetry.own_log import log


class BackgroundCall:
    """Runs one call at a time on one event loop. `name` appears in the log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins the call, unless the previous one is still under way: then the next beat tries again."""
        if self._task is not None and not self._task.done():
            log.info("heartbeat.extension_late", of=self._name)
        else:
            self._task = asyncio.create_task(self._run(call))

    async def finish(self, seconds: float) -> None:
        """Returns when no call is under way, or after `seconds`."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)

    async def _run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await call()
        except Exception:
            # A bug of ours; the next beat tries again.
            log.exception("heartbeat.failed")
