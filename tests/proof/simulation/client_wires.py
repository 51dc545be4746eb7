"""The connections to Redis and SQS, with the errors that the product's clients raise."""

from collections.abc import Awaitable, Callable
from typing import Any

import redis.exceptions

from tests.proof.simulation.wires import BrokenWireError, SilentWireError, Wire
from turnstile.errors import QueueUnavailableError


class RedisWire:
    """`tests.support.fakes.lock.Carrier` over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def ask(self, execute: Callable[[], Any]) -> Any:
        try:
            return await self._wire.ask(execute)
        except BrokenWireError as error:
            raise _redis_error(error) from error


def _redis_error(error: BrokenWireError) -> redis.exceptions.RedisError:
    if isinstance(error, SilentWireError):
        return redis.exceptions.TimeoutError(str(error))
    return redis.exceptions.ConnectionError(str(error))


def carry_to_sqs(wire: Wire) -> Callable[[Callable[[], Any], float], Awaitable[Any]]:
    async def carry(call: Callable[[], Any], seconds: float) -> Any:
        try:
            return await wire.ask(call, seconds)
        except BrokenWireError as error:
            raise QueueUnavailableError(str(error)) from error

    return carry
