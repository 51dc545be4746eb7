"""Rows that are due, messages that were sent, and SQS clients that fail, for the tests of the relay."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, LiteralString

from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import submit
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

RETRY = Settlement(
    status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, after_seconds=600, fault=True, error_class="Boom"
)


async def change(database: Database, what: LiteralString) -> None:
    await database.fetch(f"UPDATE turns SET {what}", {})


async def make_due(database: Database) -> None:
    await change(database, "send_at = now() - interval '1 s'")


async def rows(database: Database) -> list[dict[str, Any]]:
    return await database.fetch(
        "SELECT *, extract(epoch FROM send_at - clock_timestamp())::float8 AS send_in FROM turns ORDER BY created_at, seq",
        {},
    )


async def take(
    queues: MessageQueues, settings: Settings, many: int = 1, *, dead: bool = False
) -> list[ReceivedMessage]:
    """That many messages from the queue, which are then deleted."""
    found: list[ReceivedMessage] = []

    async def enough() -> bool:
        found.extend(await queues.receive(settings.queue, 10, dead=dead))
        return len(found) >= many

    await until(enough)
    await queues.delete(settings.queue, found, dead=dead)
    assert len(found) == many
    return found


async def nothing_sent(queues: MessageQueues, settings: Settings) -> bool:
    return await queues.count(settings.queue) + await queues.count(settings.queue, dead=True) == 0


class Sender:
    """Something that happens around the sending of the real one."""

    def __init__(self, queues: MessageQueues, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._queues = queues
        self._meanwhile = meanwhile

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        await self._meanwhile()
        return await self._queues.send(queue, messages)

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        await self._meanwhile()
        return await self._queues.send_dead_letters(queue, letters)


def declaring(settings: Settings, *names: str) -> Settings:
    """The same with more queues."""
    return settings.model_copy(update={"queues": (*settings.queues, *(QueueSettings(name=name) for name in names))})


class Sqs:
    """Notes what was sent to which queue, in that order. `refused` queues refuse, `silent` ones answer nothing."""

    def __init__(self, *, refused: Sequence[str] = (), silent: Sequence[str] = ()) -> None:
        self.refused = set(refused)
        self.silent = set(silent)
        self.calls: list[str] = []
        self.sent: list[str] = []

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        await self._take(queue, len(messages))
        return list(messages)

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        await self._take(f"{queue}-dlq", len(letters))
        return list(letters)

    async def _take(self, queue: str, many: int) -> None:
        self.calls.append(queue)
        if queue in self.silent:
            await asyncio.Event().wait()
        if queue in self.refused:
            raise QueueUnavailableError("AccessDenied")
        self.sent += [queue] * many


async def submit_due(database: Database, queue: str, many: int, since_seconds: float = 1.0) -> None:
    wanted = [make_submission(queue, f"{queue}-{number}") for number in range(many)]
    for start in range(0, many, 250):
        await submit(database, wanted[start : start + 250], resend_seconds=60.0)
    await database.fetch(
        "UPDATE turns SET send_at = now() - make_interval(secs => %(since)s) WHERE queue = %(queue)s",
        {"queue": queue, "since": since_seconds},
    )
