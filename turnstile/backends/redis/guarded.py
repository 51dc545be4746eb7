"""The one way to run commands on a Redis that may be away.

Redis only makes things faster here: whatever asks it has another way to go on, more slowly. So `Guarded.run` never raises for
an outage. It says that Redis is away, leaves it alone for a while, and writes the log line.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import structlog

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.client import OUTAGES, Command, NodeAwayError, RedisClient

CALLS = 20
"""At a time, of one client. Each call has a connection."""

log = structlog.get_logger("turnstile.redis")


class Guarded:
    """A client with a circuit breaker. The log lines are `<name>.redis_away` and `<name>.redis_refuses`."""

    def __init__(
        self,
        name: str,
        client: RedisClient,
        timeout_seconds: float,
        *,
        calls: int = CALLS,
        circuit: Circuit | None = None,
    ) -> None:
        self._name = name
        self._client = client
        self.timeout_seconds = timeout_seconds
        self._places = asyncio.Semaphore(calls)
        self._circuit = circuit or Circuit()

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def run(self, commands: Sequence[Command], *, even_if_away: bool = False) -> list[Any] | None:
        """The answers in the order of the commands, sent in one round trip; None: not sent, because Redis is away.

        An exception in place of an answer: Redis refused that command, or did not answer and may have carried it out.
        `even_if_away` is for what is worth a try although Redis did not answer a moment ago.
        """
        try:
            async with asyncio.timeout(self.timeout_seconds if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError:
            return None
        try:
            # After the wait: calls that waited for one that failed are not sent.
            if not self._circuit.allows(time.monotonic()) and not even_if_away:
                return None
            return await self._send(commands)
        finally:
            self._places.release()

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        is_probe = self._circuit.is_open
        try:
            answers = await self._client.run(commands)
        except OUTAGES as error:
            # Of several calls under way together only the first one tells of the outage; each later probe tells that it goes on.
            if is_probe or not self._circuit.is_open:
                log.warning(f"{self._name}.redis_away", error=f"{type(error).__name__}: {error}", calls=len(commands))
            self._circuit.failed(time.monotonic())
            return [error] * len(commands)
        self._circuit.succeeded()
        # A node of a cluster that is away has its own line in the log.
        refusals = (one for one in answers if isinstance(one, Exception) and not isinstance(one, NodeAwayError))
        if (refused := next(refusals, None)) is not None:
            why = f"{type(refused).__name__}: {refused}"
            log.warning(f"{self._name}.redis_refuses", error=why, calls=len(commands))
            if "READONLY" in why:
                # The server was the primary and was demoted without breaking its connections. redis-py does not see a refusal
                # inside a script. Behind a name or a load balancer the next connection leads to the new primary.
                self._client.leave()
        return answers

    async def ping(self) -> bool:
        """Whether Redis answers."""
        try:
            return await self._client.ping()
        except OUTAGES:
            return False

    async def info(self) -> dict[str, int] | None:
        """Counters of INFO (`client.combine`); None if Redis does not answer."""
        try:
            return await self._client.info()
        except OUTAGES:
            return None

    def pubsub(self) -> Any:
        """A redis-py PubSub with a connection of its own: see `backends.redis.subscribe`."""
        return self._client.pubsub()
