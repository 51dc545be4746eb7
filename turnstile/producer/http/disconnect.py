"""Ends work when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from turnstile.producer.http.client_connections import HALF_CLOSED

Result = TypeVar("Result")


def half_closed(scope: Scope) -> asyncio.Event:
    """Set once the client of this request has closed its sending half; never, if the server does not say."""
    event: asyncio.Event = scope.get("state", {}).get(HALF_CLOSED) or asyncio.Event()
    return event


async def while_connected(
    receive: Receive, work: Coroutine[Any, Any, Result], *, until: asyncio.Event | None = None
) -> Result | None:
    """The result of `work`; None if the client disconnects first, or `until` is set first, which cancels the work."""
    working = asyncio.create_task(work)
    ending: list[asyncio.Task[Any]] = [asyncio.create_task(_until_gone(receive))]
    if until is not None:
        ending.append(asyncio.create_task(until.wait()))
    try:
        await asyncio.wait({working, *ending}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, *ending):
            task.cancel()
        await asyncio.wait({working, *ending})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
