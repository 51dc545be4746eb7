"""Invocations of the worker as a Lambda function: handlers, turns with their messages, and the rows that come of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.event_source import EventSource
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.aws_lambda.lambda_handler import Function

MakeFunction = Callable[..., Function]


async def answer(turn: Turn, _: Context) -> Any:
    return turn.input


async def never_end(_: Turn, __: Context) -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True)
class Site:
    """A queue with its event source, its database, and what makes functions; each function is a container."""

    database: Database
    queues: MessageQueues
    settings: Settings
    source: EventSource
    function: MakeFunction

    async def send(self, *sessions: str, **fields: Any) -> None:
        """Submits a turn to each session, and sends their messages."""
        wanted = [make_submission(self.settings.queue, session, session, **fields) for session in sessions]
        accepted = await submit(self.database, wanted, resend_seconds=600.0)
        messages = [
            OutgoingMessage(WakeUp("t", one.session_id, one.turn_id), "")
            for one in accepted
            if isinstance(one, Accepted)
        ]
        await self.queues.send(self.settings.queue, messages)

    async def invoke(self, many: int, function: Function | None = None, **options: Any) -> list[str]:
        """Invokes the function with so many messages; the bodies of those that it reports."""
        return await self.source.invoke(function or self.function(), await self.source.poll(many), **options)

    async def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found = await self.database.fetch("SELECT *, send_at <= now() AS owed FROM turns ORDER BY session_id, seq", {})
        return [tuple(row[column] for column in columns) for row in found]
