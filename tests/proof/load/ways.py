"""The two ways in: straight to the queue, without the API (rows and wake-ups by the product's own submission), and over HTTP.

Both repeat a submit without a response under the same Idempotency-Key, as a client would.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from unittest.mock import patch

import aiohttp

from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.scaled_settings import TENANTS
from tests.proof.checker.evidence import Call
from tests.proof.load.arrivals import Ask
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.config_file import load
from turnstile.message_queue import MessageQueues
from turnstile.ops.submit.submit_direct import prepare
from turnstile.statements.submit import Accepted
from turnstile.submission.commit_then_wake import Submitting
from turnstile.submission.wake_ups import WakeUpSending

MOST_CONNECTIONS = 256
"""To the APIs. A request that finds all in use waits, and its wait counts."""
TRIES = 3
BATCH = 100
LANES = 2
"""As many statements at a time as an API has."""

Submit = Callable[[Ask], Awaitable[str | None]]
"""Submits a turn; its id, or None if it was refused or not answered. The journal has the response."""


@asynccontextmanager
async def open_direct(environment: Mapping[str, str], queue: str, journal: Journal) -> AsyncIterator[Submit]:
    """Submits in this process, under the settings of the others. A refusal or an outage ends the run."""
    # Settings are read from the environment when they are made, credentials when the first call needs them.
    with patch.dict("os.environ", environment):
        settings = load()
        assert settings.queue == queue
        queues = MessageQueues(settings)

        async def submit_many(asks: Sequence[Ask]) -> list[str]:
            wanted = [prepare(settings, ask.tenant, ask.session, {"input": ask.content}, ask.key) for ask in asks]
            answers = await submitting.commit(wanted)
            await submitting.wake_all(wanted, answers)
            for answer in answers:
                if not isinstance(answer, Accepted):
                    raise answer
            return [str(answer.turn_id) for answer in answers if isinstance(answer, Accepted)]

        batcher: Batcher[Ask, str] = Batcher(submit_many, limit=BATCH, lanes=LANES)

        async def submit(ask: Ask) -> str:
            begun = now()
            turn_id = await batcher(ask)
            _write(journal, ask, begun, 202, turn_id)
            return turn_id

        try:
            async with Database(settings.database, "load", size=LANES) as database:
                submitting = Submitting(settings, database, WakeUpSending(queues, list(settings.queues_by_name)))
                yield submit
        finally:
            await queues.close()


@asynccontextmanager
async def open_over_http(urls: Sequence[str], journal: Journal) -> AsyncIterator[Submit]:
    """`POST /v1/sessions/{id}/turns` at each of the APIs in turn."""
    next_url = itertools.cycle(urls)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS)) as http:

        async def submit(ask: Ask) -> str | None:
            headers = {"Authorization": f"Bearer {TENANTS[ask.tenant]}", "Idempotency-Key": ask.key}
            for _ in range(TRIES):
                begun = now()
                url = f"{next(next_url)}/v1/sessions/{ask.session}/turns"
                try:
                    async with http.post(url, json={"input": ask.content}, headers=headers) as response:
                        turn_id = str((await response.json())["id"]) if response.ok else None
                except aiohttp.ClientError:
                    _write(journal, ask, begun, None, None)
                    continue
                _write(journal, ask, begun, response.status, turn_id)
                return turn_id
            return None

        yield submit


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
