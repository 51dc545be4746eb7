"""The API as a simulated process: the real intake and cancel behind requests that take time and may be left unanswered."""

import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from tests.proof.simulation.processes import Process
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.producer.session_gate import SessionGate
from turnstile.producer.submit_intake import Intake
from turnstile.statements.submit import Accepted
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.submit.commit_then_wake import Submitting
from turnstile.submit.turn_request import RANDOM_BITS, read_submission
from turnstile.submit.wake_ups import WakeUpSending

PATIENCE_SECONDS = 4.0
LATENCY_SECONDS = 0.002


class UnansweredError(Exception):
    """The client does not know what became of its request."""


class RefusedError(Exception):
    """The API is down: certainly nothing was done."""


class _NoHints:
    """Decide nothing, and so are left out: what they would make quicker must come right without them."""

    async def publish(self, turn_ids: Sequence[UUID]) -> None:
        return

    async def tell_watchers(self, tenant_id: str, session_id: str, turn_ids: Sequence[UUID]) -> None:
        return


class SimulatedApi:
    """One API process."""

    def __init__(self, process: Process, settings: Settings) -> None:
        self._settings = settings
        self.process = process
        self.loop = process.loop
        self.database = process.database()
        self.sending = WakeUpSending(MessageQueues(settings, process.sqs_client()), list(settings.queues_by_name))
        submitting = Submitting(settings, self.database, self.sending)
        self._intake = Intake(settings, submitting, cast("CancelHints", _NoHints()), SessionGate())

    async def submit(self, tenant: str, session: str, body: dict[str, Any], key: str | None) -> Accepted:
        """What the route of a submit does. Each call is another request, with another id."""
        now, bits = datetime.fromtimestamp(self.loop.now, UTC), secrets.randbits(RANDOM_BITS)
        submission = read_submission(
            self._settings, tenant, session, json.dumps(body).encode(), key=key, now=now, random_bits=bits
        )
        return await self._intake.accept(submission)

    async def ask(self, work: Callable[["SimulatedApi"], Awaitable[Any]], *, answered: bool = True) -> Any:
        """Called by a client: has the API do `work`. Raises what it raises, UnansweredError or RefusedError."""
        if not self.process.alive:
            raise RefusedError
        loop = self.loop
        future = loop.create_future()

        def settle(task: Any) -> None:
            if future.done():
                return
            if task is None:
                future.set_exception(UnansweredError())
            elif task.exception() is not None:
                future.set_exception(task.exception())
            else:
                future.set_result(task.result())

        def done(task: Any) -> None:
            if answered:
                loop.call_in(loop.world, loop.now + LATENCY_SECONDS, settle, task)
            else:
                # Retrieved, or asyncio would complain.
                task.exception()

        def begin() -> None:
            loop.create_task(_run(work(self))).add_done_callback(done)

        loop.call_in(self.process.strand, loop.now + LATENCY_SECONDS, begin)
        loop.call_in(loop.world, loop.now + PATIENCE_SECONDS, settle, None)
        return await future


async def _run(work: Awaitable[Any]) -> Any:
    return await work
