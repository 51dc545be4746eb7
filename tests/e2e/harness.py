"""What the end-to-end tests hold the product by: a client's side, an operator's side, and its processes."""

import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.e2e.forks import fork
from tests.support.factories import make_submission
from tests.support.given_queues import find_given_queues
from tests.support.probes import until
from tests.support.process_roles import url_of_command
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp


def process_environment(settings: Settings, command: str) -> dict[str, str]:
    """What one of the product's commands runs under: the test's settings, and the role of the command if there are roles."""
    queue = settings.find_queue(settings.queue)
    variables = {
        "DATABASE_URL": url_of_command(command, settings.database_url),
        "REDIS_URL": settings.redis_url,
        **({"AWS_ENDPOINT_URL_SQS": settings.sqs_endpoint_url} if settings.sqs_endpoint_url else {}),
        "TURNSTILE_QUEUES": json.dumps([queue.model_dump()]),
        "TURNSTILE_QUEUE": settings.queue,
        "TURNSTILE_HANDLER": "tests.e2e.handlers:act",
        "TURNSTILE_LOG_LEVEL": "debug",
        "TURNSTILE_LOG_FORMAT": "json",
    }
    for name in (
        "redis_prefix", "lease_seconds", "relay_tick_seconds", "takeover_resend_seconds", "resend_seconds",
        "receive_wait_seconds", "grace_seconds", "cancel_grace_seconds", "retry_base_seconds", "retry_cap_seconds",
    ):  # fmt: skip
        variables[f"TURNSTILE_{name.upper()}"] = str(getattr(settings, name))
    given = find_given_queues()
    role = given.environment(command, settings.queue) if given else {}
    return {**os.environ, **variables, **role}


class WorkerProcess:
    """One `turnstile worker` (or another command that serves) of its own, with the test's short leases."""

    def __init__(self, logs: Path, settings: Settings, environment: dict[str, str], command: str = "worker") -> None:
        descriptor, name = tempfile.mkstemp(prefix=f"{command}-", suffix=".log", dir=logs)
        os.close(descriptor)
        self.log_path = Path(name)
        self._process = fork(command, {**process_environment(settings, command), **environment}, self.log_path)

    @property
    def exit_code(self) -> int | None:
        """None as long as it lives; negative for a signal."""
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if it still lives."""
        if self._process.pid is not None and self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self._process.kill()
        self._process.join()

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        text = self.log_path.read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines() if line["event"] == event]


class Product:
    """A client and an operator in one."""

    def __init__(self, settings: Settings, database: Database, queues: MessageQueues) -> None:
        self.settings = settings
        self.database = database
        self.queues = queues

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator["Product"]:
        # Patient: dozens ask at a time, and wait for one another on a busy machine.
        async with Database(settings.database, "rig", size=3, wait_seconds=30.0) as database:
            queues = MessageQueues(settings)
            yield cls(settings, database, queues)
            await queues.close()

    async def submit(self, *contents: Any, session: str = "s", send: bool = True, **fields: Any) -> list[UUID]:
        """Submits to one session, in order; without `send`, as if the process had died right after its commit."""
        wanted = [make_submission(self.settings.queue, session, content, **fields) for content in contents]
        accepted = await self._accept(wanted)
        if send:
            tenant = fields.get("tenant_id", "t")
            await self.send(*[(one.session_id, one.turn_id) for one in accepted if one.wake], tenant=tenant)
        return [one.turn_id for one in accepted]

    async def _accept(self, wanted: list[Submission]) -> list[Accepted]:
        answers = await submit(self.database, wanted, resend_seconds=self.settings.resend_seconds)
        assert all(isinstance(answer, Accepted) for answer in answers)
        return [answer for answer in answers if isinstance(answer, Accepted)]

    async def send(self, *turns: tuple[str, UUID], tenant: str = "t") -> None:
        """Sends a wake-up for each (session, turn)."""
        messages = [OutgoingMessage(WakeUp(tenant, session, turn), "") for session, turn in turns]
        await self.queues.send(self.settings.queue, messages)

    async def rows(self, where: str = "true") -> list[dict[str, Any]]:
        """Rows of the status table, in session and seq order."""
        return await self.fetch(f"SELECT * FROM turns WHERE {where} ORDER BY session_id, seq, created_at")

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        """One row."""
        return (await self.rows(f"id = '{turn_id}'"))[0]

    async def evidence(self, what: str = "began") -> list[dict[str, Any]]:
        """What the handler did, in the order it did it."""
        return await self.fetch(f"SELECT * FROM evidence WHERE what = '{what}' ORDER BY id")

    async def reply_of(self, turn_id: UUID) -> Any:
        """The content of its only reply."""
        [said] = await self.fetch(f"SELECT content FROM messages WHERE turn_id = '{turn_id}' AND role = 'assistant'")
        return said["content"]

    async def fetch(self, statement: str) -> list[dict[str, Any]]:
        """Any query; retried over an outage, so that tests may cause some."""
        async with self.database.connection() as connection:
            return await (await connection.execute(statement)).fetchall()  # type: ignore[call-overload, no-any-return]

    async def fetch_nothing(self, statement: str) -> None:
        """Any statement without an answer."""
        async with self.database.connection() as connection:
            await connection.execute(statement)  # type: ignore[call-overload]

    async def all_in(self, *statuses: str, within: float = 30.0) -> None:
        """Waits until every turn has one of the statuses."""
        listed = ", ".join(f"'{status}'" for status in statuses)

        async def none_left() -> bool:
            return not await self.rows(f"status NOT IN ({listed})")

        await until(none_left, within=within)

    async def ended(self, within: float = 30.0) -> None:
        """Waits until every turn has ended."""
        await self.all_in("SUCCEEDED", "FAILED", "CANCELED", within=within)

    async def status_is(self, turn_id: UUID, status: str, within: float = 30.0) -> None:
        """Waits for one turn's status."""

        async def reached() -> bool:
            return bool((await self.row(turn_id))["status"] == status)

        await until(reached, within=within)

    async def check_sessions(self) -> None:
        """Nothing lost, nothing doubled, nothing out of order: what must hold after every test."""
        doubled = await self.fetch(
            "SELECT turn_id FROM messages WHERE role = 'assistant' GROUP BY 1 HAVING count(*) > 1"
        )
        unanswered = await self.fetch(
            "SELECT id FROM turns t WHERE status = 'SUCCEEDED' AND NOT EXISTS"
            " (SELECT FROM messages m WHERE m.turn_id = t.id AND m.role = 'assistant')"
        )
        disorder = await self.fetch(
            "SELECT * FROM (SELECT session_id, seq, finished_at, lag(finished_at) OVER"
            " (PARTITION BY session_id ORDER BY seq) AS before FROM turns WHERE status IN ('SUCCEEDED', 'FAILED')) x"
            " WHERE finished_at < before"
        )
        assert (doubled, unanswered, disorder) == ([], [], [])
