"""The only way to run commands on a Redis that may be down.

Redis only makes things faster: every caller has a slower way to go on. So `run` never raises for an outage. It returns None or
errors, sends nothing for a while, and writes the log line.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Any

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.redis_client import OUTAGES, Command, NodeAwayError, RedisClient, tell_refusal
from turnstile.telemetry.backend_health import health_of
from turnstile.telemetry.own_log import log

CALLS = 20
"""Most concurrent calls of one client. Each call uses a connection; calls of histories, events and locks carry batches."""

REFUSES_SECONDS = 5.0
"""The pause between two lines about refusals for one reason: a full Redis refuses each call. As between two about an outage."""


class GuardedRedis:
    """A client with a circuit breaker. The log lines are `<name>.redis_away` and `<name>.redis_refuses`."""

    def __init__(self, name: str, client: RedisClient, timeout_seconds: float, circuit: Circuit | None = None) -> None:
        self._name = name
        self._client = client
        self.timeout_seconds = timeout_seconds
        self._places = asyncio.Semaphore(CALLS)
        self._circuit = circuit or Circuit()
        self._health = health_of(f"redis_{name}")
        self._refusal = ""
        """Redis's word for the reason in the last line, such as OOM."""
        self._refusal_said_at = -math.inf

    async def close(self) -> None:
        await self._client.aclose()

    async def run(self, commands: Sequence[Command], *, even_if_away: bool = False) -> list[Any] | None:
        """The responses in the order of the commands, sent in one round trip; None if not sent, because Redis is down.

        An exception in place of a response: Redis refused the command, or did not respond and may have carried it out.
        `even_if_away` sends the commands although Redis did not respond a moment ago.
        """
        try:
            async with asyncio.timeout(self.timeout_seconds if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError:
            return None
        try:
            # Checked after the wait, so that calls behind a failed one are not sent.
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
            # Among concurrent calls only the first failure is logged. Later each failed probe logs that the outage goes on.
            if is_probe or not self._circuit.is_open:
                log.warning(f"{self._name}.redis_away", error=f"{type(error).__name__}: {error}", calls=len(commands))
            self._circuit.failed(time.monotonic())
            self._health.failed()
            return [error] * len(commands)
        self._circuit.succeeded()
        if any(isinstance(answer, NodeAwayError) for answer in answers):
            self._health.failed()
        else:
            self._health.responded()
        # `cluster` logs a node that is down.
        refusals = (one for one in answers if isinstance(one, Exception) and not isinstance(one, NodeAwayError))
        if (refused := next(refusals, None)) is not None:
            why = tell_refusal(refused)
            reason, now = why.partition(" ")[0], time.monotonic()
            if reason != self._refusal or now >= self._refusal_said_at + REFUSES_SECONDS:
                self._refusal, self._refusal_said_at = reason, now
                log.warning(
                    f"{self._name}.redis_refuses", error=f"{type(refused).__name__}: {why}", calls=len(commands)
                )
            if "READONLY" in why:
                # The server was the primary, and its demotion did not close its connections. redis-py does not detect a
                # refusal inside a script. Behind a DNS name or a load balancer a new connection reaches the new primary.
                self._client.leave()
        return answers

    async def ping(self) -> bool:
        """Whether Redis responds."""
        try:
            return await self._client.ping()
        except OUTAGES:
            return False

    async def info(self) -> list[dict[str, str]] | None:
        """Like `RedisClient.info`; None if Redis does not respond."""
        try:
            return await self._client.info()
        except OUTAGES:
            return None

    def pubsub(self) -> Any:
        """A redis-py PubSub with a separate connection: see `backends.redis.subscribe`."""
        return self._client.pubsub()
