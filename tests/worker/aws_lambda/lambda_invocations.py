"""Invocations of the worker as a Lambda function: handlers, turns with their messages, and the rows that come of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.aws_lambda.handler import Function

MakeFunction = Callable[..., Function]


async def answer(turn: Turn, _: Context) -> Any:
    return turn.input


async def never_end(_: Turn, __: Context) -> None:
    await asyncio.Event().wait()


async def send_turns(
    database: Database, queues: MessageQueues, settings: Settings, *sessions: str, **fields: Any
) -> None:
    wanted = [make_submission(settings.queue, session, session, **fields) for session in sessions]
    accepted = await submit(database, wanted, resend_seconds=600.0)
    messages = [
        OutgoingMessage(WakeUp("t", one.session_id, one.turn_id), "") for one in accepted if isinstance(one, Accepted)
    ]
    await queues.send(settings.queue, messages)


async def rows(database: Database, *columns: str) -> list[tuple[Any, ...]]:
    found = await database.fetch("SELECT *, send_at <= now() AS owed FROM turns ORDER BY session_id, seq", {})
    return [tuple(row[column] for column in columns) for row in found]
