"""Bugs in the Python around the statements."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace as with_fields
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import turnstile.message_queue
import turnstile.producer.submit_intake
import turnstile.relay.relay_process
import turnstile.relay.renewal_evidence
import turnstile.statements.renew_lease
import turnstile.submission.turn_request
import turnstile.worker.claiming
import turnstile.worker.composition
import turnstile.worker.heartbeat
import turnstile.worker.limiting.limited_claims
import turnstile.worker.received_message
import turnstile.worker.retry_decision
import turnstile.worker.settling
import turnstile.worker.slots.slots
import turnstile.worker.slots.tenant_fairness
import turnstile.worker.worker_process
from tests.proof.chaos.supervisor import pause
from tests.proof.planted_bugs.patching import alter, instead_of, replace, settle_otherwise
from tests.proof.planted_bugs.planted_bug import planted
from tests.support.factories import PROVEN
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, MalformedMessageError
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import Settled, Superseded
from turnstile.statements.submit import Accepted
from turnstile.turn.wire_format import decode
from turnstile.worker.attempt.outcome import Snoozed, StopReason


@planted("I4", "worker-clock-shifted", "worker-sigkill")
def leases_by_the_local_clock() -> None:
    """Leases end by the worker's clock, not by the database's."""

    @instead_of(Database, "fetch_pipelined")
    async def fetch_pipelined(original: Any, self: Database, statements: list[tuple[str, Mapping[str, Any]]]) -> Any:
        off = time.time() - time.clock_gettime(time.CLOCK_REALTIME)
        altered = [
            (sql, {**values, "lease": values["lease"] + off} if "lease" in values else values)
            for sql, values in statements
        ]
        return await original(self, altered)


# Turns that outlast a stall, and calm after it: a mark needs a lease of renewals.
STALLED = {
    "sleep_seconds": (2.0, 4.0),
    "clients": 16,
    "pause_seconds": 0.05,
    "seconds": 20.0,
    "between_faults_seconds": 2.0,
    "lanes": 1,
    "bound_seconds": 40.0,
}
OFTEN = STALLED | {"between_faults_seconds": 0.5}


def _look_often() -> None:
    """Relays mark lost turns often, and workers take them over often: a renewal a moment after a stall saves the turn."""
    often = {"relay_tick_seconds": 0.02}
    for module in (turnstile.worker.worker_process, turnstile.relay.relay_process):
        replace(module, "Relay", lambda relay: lambda database, sender, settings, *evidence: relay(
            database, sender, settings.model_copy(update=often), *evidence))  # fmt: skip
    replace(turnstile.worker.worker_process, "Takeover", lambda takeover: lambda settings, *parts: takeover(
        settings.model_copy(update=often), *parts))  # fmt: skip


def _announce_no_locked_rows() -> None:
    @instead_of(turnstile.worker.heartbeat, "announce")
    async def announce(original: Any, database: Any, record: Any) -> None:
        await original(database, with_fields(record, unrenewed=[]))


def _extend_no_session_locks() -> None:
    """A session lock protects a turn that is taken for lost."""

    @instead_of(turnstile.worker.heartbeat.Heartbeat, "_extend_locks")
    async def extend(original: Any, self: Any, entries: Any) -> None:
        return


@planted("I16", "postgres-commits-hang", **OFTEN)
def takeover_without_renewal_evidence() -> None:
    """A lease that ran out counts as a lost worker even when no worker could renew."""
    replace(turnstile.relay.renewal_evidence.RenewalEvidence, "judge", lambda _: lambda self, now: PROVEN)
    _announce_no_locked_rows()
    _extend_no_session_locks()
    _look_often()


@planted("I16", "postgres-commits-hang", **OFTEN)
def renewal_commits_nothing() -> None:
    """A renewal that changes no row succeeds while every COMMIT hangs, and counts as evidence."""
    alter(turnstile.statements.renew_lease, "RENEW", ("pg_logical_emit_message(true, 'turnstile', '')", "1"))
    # What the worker says of the rows that its own hanging renewal has locked would protect the turns, too.
    _announce_no_locked_rows()
    _extend_no_session_locks()
    _look_often()


@planted("I16", "postgres-commits-hang", **STALLED | {"tenant_slots": None})
def claim_asked_again_under_a_new_id() -> None:
    """A session run whose claim had no response meets the lock of that claim, and asks under an id that does not find it."""

    @instead_of(turnstile.worker.claiming._ClaimAttempt, "ask")
    async def ask(original: Any, attempt: Any, request: Any) -> Any:
        found = await attempt._ask(request)
        if found is NoClaim.HEAD_LOCKED:
            attempt.claim_id = uuid4()
        return found

    # It must ask again while its first COMMIT hangs: over connections that begin without one, and not behind other claims.
    replace(turnstile.worker.worker_process, "Database", lambda database: lambda *given, **fields: database(
        *given, **fields | {"patience_seconds": 1.0, "first": None}))  # fmt: skip
    replace(turnstile.worker.claiming, "Batcher", lambda batcher: lambda flush, limit: batcher(
        flush, limit=1, lanes=limit))  # fmt: skip

    # Its occasion is a claim that begins while COMMITs hang, and then nothing new is submitted.
    @instead_of(turnstile.worker.claiming.Claimer, "claim")
    async def claim(original: Any, self: Any, run: Any) -> Any:
        await pause(0.4)
        return await original(self, run)


@planted("I16", "postgres-rows-backfilled", **OFTEN)
def locked_rows_not_announced() -> None:
    """A worker does not say which turns it holds behind locked rows."""
    _announce_no_locked_rows()
    _extend_no_session_locks()
    _look_often()


@planted("I15", "sqs-purged", "worker-sigkill", fifo=True)
def deduplication_id_reused() -> None:
    """A FIFO wake-up is sent under its turn's id, and SQS swallows every repeat for five minutes."""

    @instead_of(turnstile.message_queue, "_entry")
    def entry(original: Any, address: Any, wake_up: Any, attributes: Any) -> Any:
        made = original(address, wake_up, attributes)
        return made | ({"MessageDeduplicationId": str(wake_up.turn_id)} if address.fifo else {})


@planted("I10", "malformed-message")
def malformed_message_dropped() -> None:
    """A malformed message is deleted without a copy on the DLQ."""

    @instead_of(turnstile.worker.received_message.Delivery, "read")
    async def read(original: Any, self: Any, message: Any) -> Any:
        try:
            decode(message.body)
        except MalformedMessageError:
            await self.delete(message)
            return None
        return await original(self, message)


@planted("LOGS", "malformed-message")
def malformed_message_ends_the_poll() -> None:
    """A malformed message raises out of the consumer."""

    @instead_of(turnstile.message_queue.MessageQueues, "receive")
    async def receive(original: Any, self: Any, queue: str, most: int, *, dead: bool = False, wait: bool = True) -> Any:
        received = await original(self, queue, most, dead=dead, wait=wait)
        for message in received:
            if not dead:
                decode(message.body)
        return received


@planted("I2", "worker-frozen", "worker-cut-off-from-postgres", lanes=3)
def superseded_taken_for_settled() -> None:
    """A settle that changed no row is taken for a success."""

    @instead_of(turnstile.worker.settling, "settle")
    async def settle(original: Any, database: Any, terms: Any, requests: Any) -> Any:
        answers = await original(database, terms, requests)
        return [
            Settled(request.settlement.status, NoClaim.IDLE) if isinstance(answer, Superseded) else answer
            for request, answer in zip(requests, answers, strict=True)
        ]


@planted("I2", "commit-answer-lost")
def lost_settle_taken_for_superseded() -> None:
    """A settle whose response was lost is not looked up: the turn that it claimed next is forgotten."""

    @instead_of(turnstile.worker.settling, "settle")
    async def settle(original: Any, database: Any, terms: Any, requests: Any) -> Any:
        try:
            return await original(database, terms, requests)
        except DatabaseUnavailableError:
            return [Superseded() for _ in requests]


@planted("I16", "event-loop-blocked")
def heartbeat_on_the_event_loop() -> None:
    """The heartbeat runs on the event loop of the handlers."""

    @instead_of(turnstile.worker.heartbeat.Heartbeat, "_beat")
    def beat(original: Any, self: Any) -> bool:
        answer: Future[bool] = Future()
        self._call_soon(lambda: answer.set_result(original(self)))
        return answer.result()


@planted("I7", "worker-sigterm-twice")
def release_charges_an_attempt() -> None:
    """A deployment charges every running turn an attempt."""
    settle_otherwise(lambda outcome: getattr(outcome, "reason", None) is StopReason.SHUTDOWN, refund=False)


# One turn in fifty asks for patience.
@planted("I7", "relay-sigkill", clients=14, pause_seconds=0.05, seconds=14.0)
def snooze_charges_an_attempt() -> None:
    """A snooze charges an attempt."""
    settle_otherwise(lambda outcome: isinstance(outcome, Snoozed), refund=False)


@planted("I8", "poison-pill", lanes=1, between_faults_seconds=4.0)
def crash_budget_ignored() -> None:
    """A turn that kills its worker is claimed again without end."""

    @instead_of(turnstile.worker.composition, "ClaimTerms")
    def terms(original: Any, **fields: Any) -> Any:
        return original(**{**fields, "max_crashes": 1_000_000})


@planted("I12")
def idempotency_key_ignored() -> None:
    """Equal requests create one turn each."""
    replace(turnstile.submission.turn_request, "recorded_key", lambda original: lambda key, turn_id: None)


@planted("I1", "postgres-unreachable", "postgres-half-open", lanes=1)
def accepted_without_commit() -> None:
    """The client gets 202 although the database did not respond."""

    @instead_of(turnstile.producer.submit_intake.Intake, "_record")
    async def record(original: Any, self: Any, submissions: Any) -> Any:
        try:
            async with asyncio.timeout(0.3):
                return await original(self, submissions)
        except (TimeoutError, DatabaseUnavailableError):
            return [promised(submission) for submission in submissions]

    def promised(submission: Any) -> Accepted:
        now = datetime.now(UTC)
        same = {name: getattr(submission, name) for name in ("turn_id", "session_id", "queue", "trace")}
        return Accepted(**same, execute_at=None, expires_at=now, created_at=now, replayed=False, wake=True)


@planted("I22", "relay-sigkill", clients=12, workers=1, tenant_slots=2)
def tenant_cap_not_kept() -> None:
    """A deferred session runs all the same."""

    @instead_of(turnstile.worker.slots.tenant_fairness.TenantSlots, "enter")
    def enter(original: Any, self: Any, tenant_id: str, session_id: str, now: float) -> bool:
        if original(self, tenant_id, session_id, now):
            return True
        self._taken[tenant_id] += 1
        return True


@planted("I24", "worker-sigkill", clients=24, lanes=1, pause_seconds=0.02, places=3, tenant_slots=None)
def limits_not_asked() -> None:
    """Turns are claimed without a place."""
    replace(
        turnstile.worker.limiting.limited_claims.LimitedClaims, "ask", lambda _: lambda self, claim, asked: claim(asked)
    )


@planted("I23", "relay-sigkill", clients=80, workers=1, lanes=1, pause_seconds=0.02, tenant_slots=None)
def slots_not_counted() -> None:
    """Prefetched turns do not wait for a slot, and as many are prefetched as there are slots."""
    replace(turnstile.worker.slots.slots.Slots, "take", lambda _: lambda self: True)
    replace(turnstile.worker.slots.slots.Slots, "ahead", lambda _: lambda self: self.count)
