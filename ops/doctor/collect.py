"""One look at the whole system: Postgres, Redis and SQS are asked in turn, and whoever is away is a finding.

Nothing here changes anything but the visibility of dead letters, for as long as they are looked at.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.doctor import environment as surroundings
from turnstile.doctor.symptoms import (
    MOST,
    Symptom,
    TooMuchToLookAtError,
    find_letters_sent,
    find_running,
    find_sick,
)
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_pass import DeadLetterPass
from turnstile.ops.dead_letters.sweep import judge_letters
from turnstile.ops.dead_letters.verdict import Verdict
from turnstile.ops.doctor import rules as judgement
from turnstile.ops.doctor.findings import Finding
from turnstile.ops.migration_run import known_revision
from turnstile.ops.terminal.operator_access import operator_database
from turnstile.queries.operator_turns import read_statuses
from turnstile.statements.advance_fences import read_last_fence
from turnstile.statements.redrive import read_generations
from turnstile.statements.worker_registry import seen_seconds
from turnstile.streaming.stream_inspection import StreamInspector, StreamsUnreadableError
from turnstile.turn.identifiers import uuid7
from turnstile.worker.lock_inspection import LockInspector, LocksUnreadableError
from turnstile.worker.slots.tenant_cap import LONGEST_PUT_OFF_SECONDS

MOST_LOCKS = 10_000
MOST_STREAMS = 10_000
LOST_LETTER_SLACK_SECONDS = 3600.0
"""SQS drops a message about when its time is over: a letter that is nearly as old is not missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graces:
    """From when on something is late, in seconds; what is usual and then the `margin`."""

    past_lease: float
    overdue: float
    stuck: float
    soon: float
    silent: float

    @classmethod
    def of(cls, settings: Settings, margin: float) -> "Graces":
        """By the settings, so that a system with short leases is held to them."""
        return cls(
            # The relay's wake-up, then a worker that has been in touch with the database for a lease.
            past_lease=settings.lease_seconds + settings.takeover_resend_seconds + margin,
            # What a relay that died had stamped.
            overdue=settings.relay_stamp_seconds + margin,
            # A message that got lost is sent again after one net, and after two more.
            stuck=3 * settings.net_seconds + margin,
            # What is not later than this is owed in good order, however short the nets are: a stamp, or the longest put-off.
            soon=max(settings.net_seconds, settings.relay_stamp_seconds, LONGEST_PUT_OFF_SECONDS),
            silent=seen_seconds(settings) + margin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How far to look: `recent_hours` back for replies, at most `letters` of each DLQ; 0 leaves the DLQs alone."""

    margin_seconds: float
    recent_hours: float
    letters: int


class Examination:
    """Use `open`; then `look` as often as needed."""

    def __init__(
        self,
        settings: Settings,
        scope: Scope,
        queues: MessageQueues,
        locks: LockInspector,
        streams: StreamInspector,
    ) -> None:
        self.settings = settings
        self.queues = queues
        self.locks = locks
        self._streams = streams
        self._scope = scope
        self._graces = Graces.of(settings, scope.margin_seconds)
        self._found: list[Finding] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, scope: Scope) -> "AsyncIterator[Examination]":
        """Nothing is connected yet: that is what `look` finds out."""
        queues, locks, streams = MessageQueues(settings), LockInspector(settings), StreamInspector(settings)
        try:
            yield cls(settings, scope, queues, locks, streams)
        finally:
            await streams.close()
            await locks.close()
            await queues.close()

    async def look(self) -> list[Finding]:
        """Everything once. Never raises for a service that is away."""
        self._found = []
        await self._try("queues", self._look_at_queues)
        await self._try("database", self._look_with_database)
        return judgement.without_doubles(self._found)

    async def _try(self, what: str, check: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await check(*arguments)
        except DatabaseUnavailableError as error:
            self._note("postgres-unreachable", "postgres", str(error))
        except QueueUnavailableError as error:
            self._note("sqs-unreachable", "sqs", str(error))
        except UnknownQueueError as error:
            self._note("queue-missing", error.queue, str(error))
        except (LocksUnreadableError, StreamsUnreadableError) as error:
            self._note("redis-unreachable", "redis", str(error))
        except (TooMuchToLookAtError, psycopg.Error) as error:
            self._note("not-looked-at", what, str(error))

    def _note(self, code: str, subject: str, detail: str = "", **fields: Any) -> None:
        line = next((line.strip() for line in detail.splitlines() if line.strip()), "")
        self._found.append(Finding(code=code, subject=subject, detail=line, **fields))

    # --- SQS

    async def _look_at_queues(self) -> None:
        for queue in self.settings.queues_by_name:
            await self._try(f"queue {queue}", self._look_at_queue, queue)

    async def _look_at_queue(self, queue: str) -> None:
        source, dlq = await self.queues.attributes(queue), await self.queues.attributes(queue, dead=True)
        self._found += judgement.judge_queue(queue, source, dlq)

    # --- Postgres

    async def _look_with_database(self) -> None:
        try:
            async with operator_database(self.settings) as database:
                await self._try("clock", self._look_at_clock, database)
                await self._try("schema", self._look_at_schema, database)
                if any(one.code == "schema-missing" for one in self._found):
                    await self._try("locks", self._look_at_redis)
                    return
                for symptom in Symptom:
                    await self._try(symptom.value, self._look_for, database, symptom)
                await self._try("workers", self._look_at_workers, database)
                await self._try("relays", self._look_at_relays, database)
                await self._try("webhooks", self._look_at_webhooks, database)
                await self._try("locks", self._look_at_locks, database)
                await self._try("fences", self._look_at_fences, database)
                for queue in self.settings.queues_by_name if self._scope.letters else ():
                    await self._try(f"dead letters of {queue}", self._look_at_letters, database, queue)
        except DatabaseUnavailableError:
            # Redis can be asked whether it is there, if nothing else.
            await self._try("locks", self._look_at_redis)
            raise

    async def _look_at_clock(self, database: Database) -> None:
        before = datetime.now(UTC)
        theirs = await surroundings.read_clock(database)
        self._found += judgement.judge_clock(before, theirs, datetime.now(UTC))

    async def _look_at_schema(self, database: Database) -> None:
        revision, known = await surroundings.read_revision(database), known_revision()
        if revision is None:
            self._note("schema-missing", "schema")
            return
        if revision != known:
            self._note("schema-revision", "schema", f"the tables are at {revision}, this program knows {known}")
        for name in await surroundings.find_missing_guards(database):
            self._note("guard-missing", name)

    async def _look_for(self, database: Database, symptom: Symptom) -> None:
        declared = self.settings.queues_by_name
        milliseconds = time.time_ns() // 1_000_000
        terms = {
            "past_lease": self._graces.past_lease,
            "overdue": self._graces.overdue,
            "stuck": self._graces.stuck,
            "soon": self._graces.soon,
            "net": self.settings.net_seconds,
            "seen": seen_seconds(self.settings),
            "queues": list(declared),
            "max_crashes": [queue.max_crashes for queue in declared.values()],
            "newer_than": uuid7(max(0, milliseconds - int(self._scope.recent_hours * 3_600_000)), 0),
            "older_than": uuid7(milliseconds + 86_400_000, 0),
        }
        sick = await find_sick(database, symptom, terms)
        self._found += [judgement.judge_turn(symptom.value, turn, declared) for turn in sick]
        if len(sick) == MOST:
            self._note("more-than-listed", symptom.value, f"{MOST} were listed")

    async def _look_at_workers(self, database: Database) -> None:
        workers = await surroundings.read_workers(database)
        self._found += judgement.judge_workers(workers, self._graces.silent)
        unanswered = await surroundings.find_unanswered_queues(
            database,
            list(self.settings.queues_by_name),
            overdue_seconds=self._graces.overdue,
            silent_seconds=self._graces.silent,
        )
        for queue, since in unanswered.items():
            self._note("no-worker", queue, since=since, queue=queue)
        for row in await surroundings.find_undeclared_queues(database, list(self.settings.queues_by_name)):
            detail = f"{row['turns']} open turns"
            self._note("undeclared-queue", row["queue"], detail, since=row["since"], queue=row["queue"])

    async def _look_at_relays(self, database: Database) -> None:
        for row in await surroundings.find_unrelayed_queues(database, self._graces.overdue):
            detail = f"{row['turns']} turns are owed a message"
            self._note("queue-not-relayed", row["queue"], detail, since=row["since"], queue=row["queue"])

    async def _look_at_webhooks(self, database: Database) -> None:
        many, since = await surroundings.find_overdue_webhooks(database, self._graces.overdue)
        if many:
            self._note("webhooks-overdue", "webhooks", f"{many} of them", since=since)

    # --- Redis

    async def _look_at_redis(self) -> None:
        await self.locks.held(1)

    async def _look_at_locks(self, database: Database) -> None:
        locks = await self.locks.held(MOST_LOCKS)
        running = await find_running(database, [(lock.tenant_id, lock.session_id) for lock in locks])
        workers = await surroundings.read_workers(database)
        living = {worker.worker_id for worker in workers if worker.silent_seconds <= self._graces.silent}
        self._found += judgement.judge_locks(locks, running, living)

    async def _look_at_fences(self, database: Database) -> None:
        # In this order: what Redis has seen was given out before.
        seen = await self._streams.highest_fence(MOST_STREAMS)
        self._found += judgement.judge_fences(seen, await read_last_fence(database))

    # --- dead letters

    async def _look_at_letters(self, database: Database, queue: str) -> None:
        sent = await self._letters_sent(database, queue)
        seen: set[tuple[str, int | None]] = set()
        looked_at = waiting = 0
        async with DeadLetterPass(self.queues, queue) as dead:
            async for messages in dead.batches(self._scope.letters):
                looked_at += len(messages)
                judged = await judge_letters(database, messages)
                statuses = await read_statuses(database, [one.wake_up.turn_id for one, _ in judged if one.wake_up])
                waiting += sum(verdict is Verdict.STILL_DEAD for _, verdict in judged)
                for letter, verdict in judged:
                    status = statuses.get(letter.wake_up.turn_id) if letter.wake_up else None
                    finding = judgement.judge_letter(queue, letter, verdict, status)
                    self._found += [finding] if finding else []
                    if letter.wake_up:
                        seen.add((str(letter.wake_up.turn_id), letter.message.dead_letter_generation))
            whole = looked_at == dead.expected == await self.queues.count(queue, dead=True)
        if waiting:
            self._note("dead-letters-waiting", queue, f"{waiting} of them", queue=queue)
        # Whatever somebody else is just looking at is invisible to us: then nothing is known of what was not seen.
        if not whole or len(sent) == MOST:
            return
        missed = [turn for turn in sent if not {(str(turn.id), turn.generation), (str(turn.id), None)} & seen]
        now = await read_generations(database, [turn.id for turn in missed])
        self._found += [
            judgement.about_turn("dead-letter-missing", turn, f"sent to the DLQ of {queue}")
            for turn in missed
            if now.get(turn.id) == (turn.generation, turn.status)
        ]

    async def _letters_sent(self, database: Database, queue: str) -> list[Any]:
        retention = judgement.retention_seconds(await self.queues.attributes(queue, dead=True))
        kept = max(0.0, retention - LOST_LETTER_SLACK_SECONDS)
        return await find_letters_sent(database, queue, kept_seconds=kept, overdue_seconds=self._graces.overdue)
