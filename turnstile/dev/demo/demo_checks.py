"""The final check of the demo: compares the database and the queues with the turns that the API accepted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.dev.demo.clients import Ledger
from turnstile.examples.eliza import plain_text
from turnstile.examples.eliza_engine import replay
from turnstile.message_queue import MessageQueues
from turnstile.sealing.contents import Contents
from turnstile.sealing.messages import open_message
from turnstile.turn.status import TurnStatus

EVIDENCE: LiteralString = """
SELECT t.id, t.tenant_id, t.session_id, t.status, t.attempt, t.generation, t.created_at, t.started_at, t.finished_at,
       (SELECT json_agg(m.content ORDER BY m.ordinal) FROM messages m WHERE m.turn_id = t.id AND m.role = 'user') AS said,
       (SELECT json_agg(m.content ORDER BY m.ordinal) FROM messages m
         WHERE m.turn_id = t.id AND m.role = 'assistant') AS answered,
       (SELECT count(*) FROM turn_attempts a WHERE a.turn_id = t.id AND a.outcome = 'succeeded') AS settled,
       (SELECT count(*) FROM turn_attempts a WHERE a.turn_id = t.id AND a.outcome = 'lost') AS lost_attempts
  FROM turns t ORDER BY t.session_id, t.seq NULLS LAST
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    claim: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """The data of a turn in the database."""

    id: UUID
    tenant_id: str
    session_id: str
    status: str
    attempt: int
    generation: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    said: list[Any]
    answered: list[Any] | None
    settled: int
    lost_attempts: int

    @property
    def succeeded(self) -> bool:
        """Whether the turn has a reply."""
        return self.status == TurnStatus.SUCCEEDED

    @property
    def latency_seconds(self) -> float:
        """Time from acceptance to the committed reply."""
        return (self.finished_at - self.created_at).total_seconds() if self.finished_at else 0.0


async def read_rows(database: Database) -> list[Row]:
    """All turns of the demo's own database. Raises ContentsUnreadableError."""
    return [_open(Row(**row), database.contents) for row in await database.fetch(EVIDENCE, {})]


def _open(row: Row, contents: Contents) -> Row:
    whose = (row.tenant_id, row.session_id, row.id)
    said = [open_message(contents, one, *whose, "user") for one in row.said]
    answered = row.answered and [open_message(contents, one, *whose, "assistant") for one in row.answered]
    return replace(row, said=said, answered=answered)


async def judge(rows: Sequence[Row], ledger: Ledger, queues: MessageQueues, queue: str) -> list[Finding]:
    """All checks, one finding each."""
    return [
        _nothing_lost(rows, ledger),
        _nothing_doubled(rows),
        _nothing_out_of_order(rows, ledger),
        _transcripts_agree(rows),
        _redriven(rows, ledger),
        _scheduled(rows, ledger),
        _canceled(rows, ledger),
        await _queues_empty(queues, queue),
    ]


def _nothing_lost(rows: Sequence[Row], ledger: Ledger) -> Finding:
    ended = {row.id for row in rows if TurnStatus(row.status).is_terminal}
    missing = set(ledger.accepted) - ended
    unasked = {row.id for row in rows} - set(ledger.accepted)
    detail = f"{len(ledger.accepted)} turns accepted, {len(ended)} ended"
    return Finding("nothing lost", not missing and not unasked, detail)


def _nothing_doubled(rows: Sequence[Row]) -> Finding:
    wrong = [row for row in rows if len(row.answered or []) != row.succeeded or row.settled != row.succeeded]
    taken_over = sum(row.lost_attempts for row in rows)
    return Finding("nothing doubled", not wrong, f"one reply each; {taken_over} turns of the killed worker taken over")


def _nothing_out_of_order(rows: Sequence[Row], ledger: Ledger) -> Finding:
    overlaps = swapped = 0
    asked = {turn_id: place for place, turn_id in enumerate(ledger.accepted)}
    for _, turns in groupby(rows, key=lambda row: row.session_id):
        run = [row for row in turns if row.started_at and row.finished_at]
        overlaps += sum(later.started_at < before.finished_at for before, later in pairwise(run))  # type: ignore[operator]
        # A redriven turn moves to the end of its session, and a scheduled turn gets its place when it is due.
        plain = [row for row in run if row.generation == 1 and row.id not in ledger.due_at]
        swapped += sum(asked[later.id] < asked[before.id] for before, later in pairwise(plain))
    sessions = len({row.session_id for row in rows})
    detail = f"{sessions} sessions, {overlaps} overlaps, {swapped} swaps"
    return Finding("nothing out of order", not overlaps and not swapped, detail)


def _transcripts_agree(rows: Sequence[Row]) -> Finding:
    wrong = []
    for session_id, turns in groupby(rows, key=lambda row: row.session_id):
        run = [row for row in turns if row.succeeded]
        expected = replay([plain_text(row.said[0]) for row in run])
        if [row.answered[0] for row in run if row.answered] != expected:
            wrong.append(session_id)
    return Finding("every transcript as if played alone", not wrong, f"{len(wrong)} differ" if wrong else "all equal")


def _redriven(rows: Sequence[Row], ledger: Ledger) -> Finding:
    wanted = set(ledger.turns("outage"))
    healed = {row.id for row in rows if row.succeeded and row.generation == 2}
    detail = f"{len(wanted & healed)} of {len(wanted)} failed turns redriven to success"
    return Finding("dead letters redriven", bool(wanted) and wanted == healed, detail)


def _scheduled(rows: Sequence[Row], ledger: Ledger) -> Finding:
    late = [
        (row.started_at - ledger.due_at[row.id]).total_seconds()
        for row in rows
        if row.id in ledger.due_at and row.started_at
    ]
    holds = len(late) == len(ledger.due_at) == 1 and late[0] >= 0
    return Finding(
        "the scheduled turn was not early", holds, f"begun {late[0]:.2f} s after its time" if late else "not run"
    )


def _canceled(rows: Sequence[Row], ledger: Ledger) -> Finding:
    wanted = ledger.turns("endless")
    canceled = [row for row in rows if row.status == TurnStatus.CANCELED]
    holds = [row.id for row in canceled] == wanted and not any(row.answered for row in canceled)
    return Finding("the cancelled turn was never answered", holds, f"{len(canceled)} cancelled while it ran")


async def _queues_empty(queues: MessageQueues, queue: str) -> Finding:
    left, dead = await queues.count(queue), await queues.count(queue, dead=True)
    return Finding("queue and DLQ empty", left == dead == 0, f"{left} messages, {dead} dead letters")
