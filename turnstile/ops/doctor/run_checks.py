"""Checks the whole system: SQS, Redis and Postgres in turn. An unreachable service is a finding.

Changes nothing except the visibility of dead letters while it reads them. The locks by which it tries Redis expire in a second.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import MISSING, VERSIONS, tables_refused
from turnstile.backends.redis.operator_client import RedisUnreachableError
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, ServerTooOldError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_messages import DeadLetterPass, LetterKind, classify_letters
from turnstile.ops.doctor.check import Check
from turnstile.ops.doctor.checks import BY_CODE, CHECKS, LIMIT
from turnstile.ops.doctor.idle_timeout import find_roles_without_idle_timeout
from turnstile.ops.doctor.lockers import Locker, find_lockers
from turnstile.ops.doctor.read_database import QuestionTooLargeError, ask, read_table_version
from turnstile.ops.doctor.redis_trial import try_redis
from turnstile.ops.doctor.stream_inspection import highest_fence
from turnstile.ops.stats.progress_words import describe_standstill
from turnstile.ops.terminal.clocks import find_difference, read_clock
from turnstile.ops.terminal.operator_access import operator_database
from turnstile.ops.terminal.output import short_duration
from turnstile.ops.why.decision import MARGIN_SECONDS
from turnstile.ops.why.lock_inspection import find_foreign_locks
from turnstile.queries.progress import PROGRESS, Progress
from turnstile.statements.advance_fences import read_last_fence

MOST_LETTERS = 1000
"""Most messages to read from one DLQ."""

MOST_STREAMS = 10_000
MOST_LOCKS = 10_000

PAGES = {"postgres": "postgres-failover.md", "redis": "redis-down.md", "sqs": "sqs-throttled.md"}
"""The runbook of each service."""

LETTER_CODES = {
    LetterKind.STILL_DEAD: "dead-letters-waiting",
    LetterKind.OUTLIVED: "dead-letters-outlived",
    LetterKind.MOVED_BY_SQS: "dead-letters-outlived",
    LetterKind.MALFORMED: "dead-letters-unexplained",
    LetterKind.UNKNOWN_TURN: "dead-letters-unexplained",
}

LETTER_WORDS = {
    LetterKind.STILL_DEAD: "of turns that are FAILED",
    LetterKind.OUTLIVED: "of turns that have moved on",
    LetterKind.MOVED_BY_SQS: "moved there by SQS (moved_by_sqs)",
    LetterKind.MALFORMED: "malformed",
    LetterKind.UNKNOWN_TURN: "of unknown turns",
}

HASTY_RECEIVES = 100
"""Smallest safe maxReceiveCount: a busy session may return the same wake-up many times, but never this often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One problem. The fields are part of the JSON output; new ones may be added."""

    code: str
    subject: str
    detail: str = ""
    since: datetime | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    queue: str | None = None
    fixed: bool | None = None
    """None: no repair was tried."""

    @property
    def check(self) -> Check:
        return BY_CODE[self.code]

    @property
    def advice(self) -> str:
        page = PAGES.get(self.subject)
        return self.check.advice.format(subject=self.subject, queue=self.queue, turn=self.turn_id, page=page)


Findings = list[DoctorFinding]


async def look(settings: Settings, *, dlq: bool) -> Findings:
    """The findings, errors first. `dlq` includes the dead-letter queues. Does not raise if a service is unreachable."""
    found: Findings = []
    queues = MessageQueues(settings)
    try:
        for queue in settings.queues_by_name:
            with _noting(found, f"queue {queue}"):
                await _look_at_queue(found, queues, queue)
        for url in dict.fromkeys((settings.redis_url, settings.memory_redis)):
            await _look_at_redis(found, settings, url)
        with _noting(found, "postgres"):
            async with operator_database(settings) as database:
                await _look_at_tables(found, settings, database, queues if dlq else None)
    finally:
        await queues.close()
    order = list(BY_CODE)
    once = {(one.code, one.subject): one for one in found}
    return sorted(once.values(), key=lambda one: (one.check.severity.value, order.index(one.code)))


@contextmanager
def _noting(found: Findings, what: str) -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailableError as error:
        found.append(DoctorFinding(code="service-unreachable", subject="postgres", detail=str(error)))
    except ServerTooOldError as error:
        found.append(DoctorFinding(code="server-too-old", subject="postgres", detail=str(error)))
    except QueueUnavailableError as error:
        found.append(DoctorFinding(code="service-unreachable", subject="sqs", detail=str(error)))
    except UnknownQueueError as error:
        found.append(DoctorFinding(code="queue-missing", subject=error.queue, queue=error.queue, detail=str(error)))
    except (QuestionTooLargeError, psycopg.Error) as error:
        found.append(DoctorFinding(code="not-looked-at", subject=what, detail=str(error).partition("\n")[0]))


async def _look_at_redis(found: Findings, settings: Settings, url: str) -> None:
    try:
        fault = await try_redis(url, settings)
    except RedisUnreachableError as error:
        fault = "service-unreachable", str(error)
    if fault is not None:
        code, detail = fault
        found.append(DoctorFinding(code=code, subject=_name_redis(settings, url), detail=detail))
    elif url == settings.redis_url:
        for lock in (await find_foreign_locks(settings, MOST_LOCKS))[:LIMIT]:
            found.append(DoctorFinding(code="foreign-lock", subject=lock.key, detail="workers claim without it"))


def _name_redis(settings: Settings, url: str) -> str:
    return "redis" if url == settings.redis_url else "redis of the memory"


async def _look_at_queue(found: Findings, queues: MessageQueues, queue: str) -> None:
    source, dlq = await queues.attributes(queue), await queues.attributes(queue, dead=True)
    if detail := judge_policy(source, dlq):
        found.append(DoctorFinding(code="redrive-policy", subject=queue, queue=queue, detail=detail))


async def _look_at_tables(found: Findings, settings: Settings, database: Database, dlqs: MessageQueues | None) -> None:
    await _look_at_clocks(found, database)
    if await _look_at_locks(found, database):
        return
    tables = await read_table_version(database)
    if tables is None:
        found.append(DoctorFinding(code="not-looked-at", subject="tables", detail=MISSING))
        return
    if tables["version"] != VERSIONS[-1]:
        refused = tables_refused(tables) or "they are newer, and this program can use them"
        detail = f"the tables are at {tables['version']}, this program knows {VERSIONS[-1]}: {refused}"
        found.append(DoctorFinding(code="schema-revision", subject="schema", detail=detail))
    terms = make_terms(settings)
    for check in CHECKS:
        if check.statement is not None:
            with _noting(found, check.code):
                rows = await ask(database, check.statement, terms)
                found += [DoctorFinding(code=check.code, **row) for row in rows]
                if len(rows) == LIMIT:
                    detail = f"only the first {LIMIT} were listed"
                    found.append(DoctorFinding(code="not-looked-at", subject=check.code, detail=detail))
    with _noting(found, "standstill"):
        rows = await ask(database, PROGRESS, {"queues": list(settings.queues_by_name)})
        found += [
            DoctorFinding(code="standstill", subject=one.queue, queue=one.queue, since=one.still_since, detail=detail)
            for one in (Progress(**row) for row in rows)
            if (detail := describe_standstill(one))
        ]
    with _noting(found, "idle-in-transaction-timeout"):
        for row in await find_roles_without_idle_timeout(settings.database):
            found.append(DoctorFinding(code="idle-in-transaction-timeout", **row))
    with _noting(found, "fences-behind"):
        await _look_at_fences(found, settings, database)
    if dlqs is not None:
        for queue in settings.queues_by_name:
            with _noting(found, f"dead letters of {queue}"):
                await _look_at_letters(found, database, dlqs, queue)


async def _look_at_clocks(found: Findings, database: Database) -> None:
    before = datetime.now(UTC)
    at = await read_clock(database)
    ahead = find_difference(at, before, datetime.now(UTC))
    if ahead is not None:
        seconds = ahead.total_seconds()
        words = f"{short_duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'}"
        detail = f"the database's is {words} this machine's"
        found.append(DoctorFinding(code="clocks-differ", subject="postgres", detail=detail))


async def _look_at_locks(found: Findings, database: Database) -> bool:
    """Whether a table is locked as a whole: each query about it would wait for its whole timeout."""
    lockers = await find_lockers(database)
    for one in lockers:
        code = "table-locked" if one.whole else "rows-locked"
        found.append(DoctorFinding(code=code, subject=str(one.pid), since=one.since, detail=_describe_locker(one)))
    return any(one.whole for one in lockers)


def _describe_locker(one: Locker) -> str:
    age = (
        "only its role and pg_monitor see since when"
        if one.seconds is None
        else f"open for {short_duration(one.seconds)}"
    )
    waits = f"waits itself for process {', '.join(map(str, one.waits_for))}" if one.waits_for else ""
    parts = (
        f"user {one.user_name}",
        f"application {one.application or 'without a name'}",
        age,
        one.state,
        f"tables {', '.join(one.tables)}",
        waits,
    )
    return ", ".join(filter(None, parts))


def make_terms(settings: Settings) -> dict[str, Any]:
    """The query parameters: limits in seconds after which something counts as late, derived from the settings."""
    return {
        "lease": settings.lease_seconds,
        "takeover": settings.takeover_resend_seconds + MARGIN_SECONDS,
        # The stamp of a relay that died before it sent the wake-up.
        "overdue": settings.relay_stamp_seconds + MARGIN_SECONDS,
        "margin": MARGIN_SECONDS,
        "deaf": settings.deaf_seconds,
        "queues": list(settings.queues_by_name),
        "limit": LIMIT,
    }


async def _look_at_fences(found: Findings, settings: Settings, database: Database) -> None:
    # Redis first: Postgres issues each fence before Redis sees it, so a later read of Postgres must not be behind.
    try:
        seen = await highest_fence(settings, MOST_STREAMS)
    except RedisUnreachableError as error:
        name = _name_redis(settings, settings.memory_redis)
        found.append(DoctorFinding(code="service-unreachable", subject=name, detail=str(error)))
        return
    drawn = await read_last_fence(database)
    if seen > drawn:
        detail = f"Redis has seen {seen}, Postgres is at {drawn}"
        found.append(DoctorFinding(code="fences-behind", subject="fences", detail=detail))


async def _look_at_letters(found: Findings, database: Database, queues: MessageQueues, queue: str) -> None:
    letters: Counter[LetterKind] = Counter()
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches(MOST_LETTERS):
            letters.update(letter.kind for letter in await classify_letters(database, messages))
    details: dict[str, list[str]] = {}
    cut = letters.total() >= MOST_LETTERS
    for kind in LetterKind:
        if letters[kind]:
            many = f"{letters[kind]} or more" if cut else f"{letters[kind]}"
            details.setdefault(LETTER_CODES[kind], []).append(f"{many} {LETTER_WORDS[kind]}")
    for code, counts in details.items():
        found.append(DoctorFinding(code=code, subject=queue, queue=queue, detail=", ".join(counts)))
    if cut:
        detail = f"only {MOST_LETTERS} of its dead letters were read"
        found.append(
            DoctorFinding(code="not-looked-at", subject=f"dead letters of {queue}", queue=queue, detail=detail)
        )


def judge_policy(source: Mapping[str, str], dlq: Mapping[str, str]) -> str:
    """The faults of a RedrivePolicy, from the attributes of the queue and its DLQ; empty if there are none, or no policy."""
    policy = json.loads(source.get("RedrivePolicy", "{}"))
    receives, target = int(policy.get("maxReceiveCount", HASTY_RECEIVES)), policy.get("deadLetterTargetArn")
    wrong = []
    if receives < HASTY_RECEIVES:
        wrong.append(f"SQS moves a wake-up away after {receives} receives, which a busy session makes")
    if target is not None and target != dlq.get("QueueArn", target):
        wrong.append(f"it names {target}")
    return ", and ".join(wrong)
