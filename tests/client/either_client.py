"""Either client, called from a loop in which the API runs, too."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.producer.api.calls import KEYS
from turnstile.client import AsyncClient, Client

both = pytest.mark.parametrize("kind", [AsyncClient, Client])


@asynccontextmanager
async def connected(kind: type[Any], port: int, key: str = KEYS["acme"]) -> AsyncIterator[Any]:
    client = kind(f"http://127.0.0.1:{port}", api_key=key)
    try:
        yield client
    finally:
        await call(client.close)


async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls either client. The sync one on a thread, because the server is on this one."""
    made = await asyncio.to_thread(function, *arguments, **named)
    return await made if inspect.isawaitable(made) else made


async def each(told: Any) -> AsyncIterator[Any]:
    """What either client tells, one by one."""
    if hasattr(told, "__aiter__"):
        async for one in told:
            yield one
        return
    while (one := await asyncio.to_thread(next, told, None)) is not None:
        yield one


async def listed(told: Any) -> list[Any]:
    return [one async for one in each(told)]
