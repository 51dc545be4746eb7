"""How the calls of a fake client come to its server: at once, or over a wire of the simulation."""

from collections.abc import Callable
from typing import Any, Protocol


class Carry(Protocol):
    """Has a call carried out, within so many seconds if they are given. Raises what the product's own client raises."""

    async def __call__(self, call: Callable[[], Any], seconds: float | None = None, /) -> Any: ...


async def at_once(call: Callable[[], Any], seconds: float | None = None, /) -> Any:
    return call()
