"""The two ways in: straight to the queue, without the API (rows and wake-ups by the product's own submission), and over HTTP.

Both are tried again under the same Idempotency-Key where they were not answered, as a client would.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol
from unittest.mock import patch

from bench.http_load import post
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.scaled_settings import TENANTS
from tests.proof.checker.evidence import Call
from tests.proof.load.arrivals import Ask
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.load_settings import load
from turnstile.message_queue import MessageQueues
from turnstile.ops.commands.submit_direct import prepare, submit_all
from turnstile.ops.dev.stack.ports import LOOPBACK
from turnstile.submit.commit_then_wake import Submitting
from turnstile.submit.wake_ups import WakeUpSending

MOST_CONNECTIONS = 256
"""To the APIs. A request that finds all in use waits, and its wait counts."""
TRIES = 3
BATCH = 100
LANES = 2
"""As many statements at a time as an API has."""


class Way(Protocol):
    """How turns get in."""

    async def submit(self, ask: Ask) -> str | None:
        """Submits a turn; its id, or None if it was refused or not answered. The journal has what was said."""


@dataclass(slots=True)
class Direct:
    """Rows and wake-ups, as `turnstile submit --direct` makes them; those that are due at the same moment together."""

    batcher: "Batcher[Ask, str]"
    journal: Journal

    async def submit(self, ask: Ask) -> str | None:
        begun = now()
        turn_id = await self.batcher(ask)
        _write(self.journal, ask, begun, 202, turn_id)
        return turn_id


@asynccontextmanager
async def open_direct(environment: Mapping[str, str], queue: str, journal: Journal) -> AsyncIterator[Direct]:
    """Submits in this process, under the settings of the others. A refusal or an outage ends the run."""
    # Settings are read from the environment when they are made, credentials when the first call needs them.
    with patch.dict("os.environ", environment):
        settings = load()
        assert settings.queue == queue
        queues = MessageQueues(settings)

        async def submit(asks: Sequence[Ask]) -> list[str]:
            wanted = [prepare(settings, ask.tenant, ask.session, {"input": ask.content}, ask.key) for ask in asks]
            result = await submit_all(submitting, wanted)
            if result.refused:
                raise RuntimeError(f"refused: {result.refused[0]}")
            return [str(turn_id) for turn_id in result.turn_ids]

        try:
            async with Database(settings.database_url, "load", size=LANES) as database:
                submitting = Submitting(settings, database, WakeUpSending(queues, list(settings.queues_by_name)))
                yield Direct(Batcher(submit, limit=BATCH, lanes=LANES), journal)
        finally:
            await queues.close()


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class OverHttp:
    """`POST /v1/sessions/{id}/turns` at each of the APIs in turn, on connections that are kept."""

    ports: Sequence[int]
    journal: Journal
    _free: dict[int, list[_Connection]] = field(default_factory=dict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_CONNECTIONS))
    _next_port: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._next_port = itertools.cycle(self.ports)

    async def submit(self, ask: Ask) -> str | None:
        for _ in range(TRIES):
            begun = now()
            try:
                async with self._places:
                    status, answer = await self._post(ask)
            except (OSError, asyncio.IncompleteReadError):
                _write(self.journal, ask, begun, None, None)
                continue
            turn_id = str(json.loads(answer)["id"]) if status < 300 else None
            _write(self.journal, ask, begun, status, turn_id)
            return turn_id
        return None

    async def _post(self, ask: Ask) -> tuple[int, bytes]:
        port = next(self._next_port)
        free = self._free.setdefault(port, [])
        # A server closes what was idle for seconds, and says so on the connection.
        while free and free[-1].reader.at_eof():
            free.pop().writer.close()
        connection = free.pop() if free else _Connection(*await asyncio.open_connection(LOOPBACK, port))
        headers = {"Authorization": f"Bearer {TENANTS[ask.tenant]}", "Idempotency-Key": ask.key}
        body = json.dumps({"input": ask.content}).encode()
        try:
            found = await post(connection.reader, connection.writer, f"/v1/sessions/{ask.session}/turns", body, headers)
        except BaseException:
            connection.writer.close()
            raise
        free.append(connection)
        return found

    def close(self) -> None:
        for free in self._free.values():
            for connection in free:
                connection.writer.close()


def _write(journal: Journal, ask: Ask, begun: float, status: int | None, turn_id: str | None) -> None:
    outcome = "ok" if turn_id is not None else "fail" if status is not None and status < 500 else "unknown"
    journal.write(
        Call(
            client="load",
            op="submit",
            at=begun,
            until=now(),
            outcome=outcome,
            http=status,
            tenant=ask.tenant,
            session=ask.session,
            key=ask.key,
            content=ask.content,
            turn_id=turn_id,
            status=None if turn_id is None else "PENDING",
        )
    )
