"""Bugs in the Python around the statements."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from typing import Any

import turnstile.message_queue
import turnstile.producer.submit.intake
import turnstile.producer.submit.turn_request
import turnstile.relay.renewal_evidence
import turnstile.statements.settle
import turnstile.worker.decision
import turnstile.worker.delivery
import turnstile.worker.heartbeat
import turnstile.worker.processor
import turnstile.worker.settling
import turnstile.worker.slots.slots
import turnstile.worker.slots.tenant_slots
from tests.proof.planted_bugs.patching import replace
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, MalformedMessageError
from turnstile.statements.submit import Accepted
from turnstile.turn.settlement import AttemptOutcome
from turnstile.worker.attempt.outcome import Snoozed, Stopped, StopReason


def leases_by_the_local_clock() -> None:
    """Leases end by the clock of whoever took them, not by the database's."""

    def local(original: Callable[..., Any]) -> Callable[..., Any]:
        async def fetch_pipelined(self: Database, statements: list[tuple[str, Mapping[str, Any]]]) -> Any:
            off = time.time() - time.clock_gettime(time.CLOCK_REALTIME)
            altered = [
                (sql, {**values, "lease": values["lease"] + off} if "lease" in values else values)
                for sql, values in statements
            ]
            return await original(self, altered)

        return fetch_pipelined

    replace(Database, "fetch_pipelined", local)


def renewals_not_counted() -> None:
    """A lease that ran out says that its worker is lost, whether or not anybody can renew."""
    replace(turnstile.relay.renewal_evidence.RenewalEvidence, "allows_takeover", lambda _: lambda self, now: True)


def deduplication_id_reused() -> None:
    """A FIFO wake-up is sent under its turn's id, and SQS swallows every repeat for five minutes."""

    def stable(original: Callable[..., Any]) -> Callable[..., Any]:
        def entry(address: Any, wake_up: Any, attributes: Any) -> Any:
            made = original(address, wake_up, attributes)
            return made | ({"MessageDeduplicationId": str(wake_up.turn_id)} if address.fifo else {})

        return entry

    replace(turnstile.message_queue, "_entry", stable)


def malformed_message_dropped() -> None:
    """What can't be understood is deleted, and nobody ever sees it again."""

    def dropping(original: Callable[..., Any]) -> Callable[..., Any]:
        async def read(self: Any, message: Any) -> Any:
            try:
                turnstile.worker.delivery.decode(message.body)
            except MalformedMessageError:
                await self.delete(message)
                return None
            return await original(self, message)

        return read

    replace(turnstile.worker.delivery.Delivery, "read", dropping)


def malformed_message_ends_the_poll() -> None:
    """What can't be understood raises out of the consumer."""

    def raising(original: Callable[..., Any]) -> Callable[..., Any]:
        async def receive(self: Any, queue: str, most: int, *, dead: bool = False, wait: bool = True) -> Any:
            received = await original(self, queue, most, dead=dead, wait=wait)
            for message in received:
                if not dead:
                    turnstile.worker.delivery.decode(message.body)
            return received

        return receive

    replace(turnstile.message_queue.MessageQueues, "receive", raising)


def superseded_taken_for_settled() -> None:
    """A settle that changed no row is taken for a success."""

    def hopeful(original: Callable[..., Any]) -> Callable[..., Any]:
        async def settle(database: Any, terms: Any, requests: Any) -> Any:
            answers = await original(database, terms, requests)
            return [
                turnstile.statements.settle.Settled(request.settlement.status, turnstile.statements.settle.NoClaim.IDLE)
                if isinstance(answer, turnstile.statements.settle.Superseded)
                else answer
                for request, answer in zip(requests, answers, strict=True)
            ]

        return settle

    replace(turnstile.worker.settling, "settle", hopeful)


def lost_settle_taken_for_superseded() -> None:
    """A settle whose answer got lost is not looked up: what it had claimed next is forgotten."""

    def forgetful(original: Callable[..., Any]) -> Callable[..., Any]:
        async def settle(database: Any, terms: Any, requests: Any) -> Any:
            try:
                return await original(database, terms, requests)
            except DatabaseUnavailableError:
                return [turnstile.statements.settle.Superseded() for _ in requests]

        return settle

    replace(turnstile.worker.settling, "settle", forgetful)


def heartbeat_on_the_event_loop() -> None:
    """The heartbeat waits its turn among the handlers."""

    def on_loop(original: Callable[..., Any]) -> Callable[..., Any]:
        def beat(self: Any) -> bool:
            done = threading.Event()
            answers: list[bool] = []

            def run() -> None:
                answers.append(original(self))
                done.set()

            self._call_soon(run)
            done.wait()
            return answers[0]

        return beat

    replace(turnstile.worker.heartbeat.Heartbeat, "_beat", on_loop)


def release_charges_an_attempt() -> None:
    """A deployment costs every turn under way an attempt."""

    def charging(original: Callable[..., Any]) -> Callable[..., Any]:
        def decide(outcome: Any, *args: Any, **fields: Any) -> Any:
            settlement = original(outcome, *args, **fields)
            if isinstance(outcome, Stopped) and outcome.reason is StopReason.SHUTDOWN:
                return with_fields(settlement, refund=False)
            return settlement

        return decide

    replace(turnstile.worker.settling, "decide", charging)


def snooze_charges_an_attempt() -> None:
    """A provider that asks for patience uses up the turn's budget."""

    def charging(original: Callable[..., Any]) -> Callable[..., Any]:
        def decide(outcome: Any, *args: Any, **fields: Any) -> Any:
            settlement = original(outcome, *args, **fields)
            if isinstance(outcome, Snoozed) and settlement.outcome is AttemptOutcome.SNOOZED:
                return with_fields(settlement, refund=False)
            return settlement

        return decide

    replace(turnstile.worker.settling, "decide", charging)


def crash_budget_ignored() -> None:
    """A turn that kills its worker is tried for ever."""

    def boundless(original: Callable[..., Any]) -> Callable[..., Any]:
        def terms(**fields: Any) -> Any:
            return original(**{**fields, "max_crashes": 1_000_000})

        return terms

    replace(turnstile.worker.processor, "ClaimTerms", boundless)


def idempotency_key_ignored() -> None:
    """Equal requests make a turn each."""
    replace(turnstile.producer.submit.turn_request, "_recorded_key", lambda original: lambda key, turn_id: None)


def accepted_without_commit() -> None:
    """The client is told 202 although the database did not answer."""

    def optimistic(original: Callable[..., Any]) -> Callable[..., Any]:
        async def record(self: Any, submissions: Any) -> Any:
            try:
                async with asyncio.timeout(0.3):
                    return await original(self, submissions)
            except (TimeoutError, DatabaseUnavailableError):
                return [_promised(submission) for submission in submissions]

        return record

    replace(turnstile.producer.submit.intake.Intake, "_record", optimistic)


def _promised(submission: Any) -> Accepted:
    import datetime

    now = datetime.datetime.now(datetime.UTC)
    return Accepted(
        turn_id=submission.turn_id,
        session_id=submission.session_id,
        queue=submission.queue,
        execute_at=None,
        expires_at=now,
        created_at=now,
        trace=submission.trace,
        replayed=False,
        wake=True,
    )


def tenant_cap_not_kept() -> None:
    """A session that was put off is worked on all the same."""

    def open_door(original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(self: Any, tenant_id: str, session_id: str, now: float) -> bool:
            if original(self, tenant_id, session_id, now):
                return True
            self._taken[tenant_id] += 1
            return True

        return enter

    replace(turnstile.worker.slots.tenant_slots.TenantSlots, "enter", open_door)


def slots_not_counted() -> None:
    """What was taken in ahead does not wait for a slot, and as much is taken in ahead as there are slots."""
    replace(turnstile.worker.slots.slots.Slots, "take", lambda _: lambda self: True)
    replace(turnstile.worker.slots.slots.Slots, "ahead", lambda _: lambda self: self.count)
