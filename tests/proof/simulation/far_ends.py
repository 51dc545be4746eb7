"""The wires to Redis and SQS, as the product's clients of them see a broken one."""

from collections.abc import Callable
from typing import Any

import redis.exceptions
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from tests.proof.simulation.clock import VirtualLoop
from tests.proof.simulation.wires import BrokenWireError, SilentWireError, Wire
from tests.support.fakes.queues import FakeSqs

COMMAND_TRIES = 2
"""botocore's own, of a command; a poll is tried once."""

COMMAND_PATIENCE_SECONDS = 5.0
EXTEND_PATIENCE_SECONDS = 2.0
POLL_SLACK_SECONDS = 10.0


class RedisWire:
    """`tests.support.fakes.lock.Carrier` over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def ask(self, execute: Callable[[], Any]) -> Any:
        """From the event loop."""
        try:
            return await self._wire.ask(execute)
        except BrokenWireError as error:
            raise _redis_error(error) from error

    def ask_blocking(self, execute: Callable[[], Any]) -> Any:
        """Nobody blocks in the simulation."""
        raise AssertionError("a blocking call")


def _redis_error(error: BrokenWireError) -> redis.exceptions.RedisError:
    if isinstance(error, SilentWireError):
        return redis.exceptions.TimeoutError(str(error))
    return redis.exceptions.ConnectionError(str(error))


def _sqs_error(error: BrokenWireError) -> Exception:
    if isinstance(error, SilentWireError):
        return ReadTimeoutError(endpoint_url="fake://")
    return EndpointConnectionError(endpoint_url="fake://")


class SqsExecutor:
    """What the thread pools of `MessageQueues` are to it: takes a call of the client, and travels."""

    def __init__(self, loop: VirtualLoop, wire: Wire, *, tries: int, patience_seconds: float) -> None:
        self._loop = loop
        self._wire = wire
        self._tries = tries
        self._patience = patience_seconds

    def request(self, call: Callable[[], Any]) -> Any:
        """`loop.run_in_executor`."""
        future = self._loop.create_future()
        strand = self._loop.current
        left = self._tries

        def deliver(outcome: Any) -> None:
            nonlocal left
            if future.done():
                return
            if not isinstance(outcome, BaseException):
                future.set_result(outcome)
            elif not isinstance(outcome, BrokenWireError):
                future.set_exception(outcome)
            elif left:
                attempt()
            else:
                future.set_exception(_sqs_error(outcome))

        def attempt() -> None:
            nonlocal left
            left -= 1
            self._wire.send(strand, call, deliver, self._patience)

        attempt()
        return future

    def shutdown(self, **_: Any) -> None:
        """No threads."""


class ExtendClient:
    """The heartbeat's own client."""

    def __init__(self, server: FakeSqs, wire: Wire) -> None:
        self._server = server
        self._wire = wire

    async def change_message_visibility_batch(self, **arguments: Any) -> Any:
        """To be awaited, where boto3's blocks."""
        try:
            return await self._wire.ask(
                lambda: self._server.change_message_visibility_batch(**arguments), EXTEND_PATIENCE_SECONDS
            )
        except BrokenWireError as error:
            raise _sqs_error(error) from error
