"""The fake store: an in-memory stand-in for `backends.postgres.database.Database` on a virtual clock, for the seeded simulation.

It knows the product's own SQL constants and does for each what the statement does, on plain rows: everything in Python
above it (claim, settle with its re-read, submit, cancel, revive, the relay) is the product's real code. That it does the
same as Postgres is checked by `tests/statements` and by the Hypothesis machine in `tests/model`.

What it leaves out: row locks. Each call, and each transaction of `connection()`, is one step that nothing gets between, so
no row is ever skipped for being locked, and no claim is told to look again.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.support.fakes import (
    store_cancel,
    store_children,
    store_claim,
    store_evidence,
    store_halting,
    store_on_busy,
    store_relay,
    store_submit,
)
from tests.support.fakes.store_tables import Tables
from turnstile.memory import durable_items as memory_items
from turnstile.queries import attempts, backlog, history
from turnstile.statements import cancel as cancellation
from turnstile.statements import cancel_before_submit as chosen_ids
from turnstile.statements import (
    children,
    claim,
    locked_rows,
    lost_turns,
    redrive,
    schedule,
    session_head,
    settle,
    waiting_tenants,
)
from turnstile.statements import compensate as compensation
from turnstile.statements import defer as defer
from turnstile.statements import due_messages as relay_statements
from turnstile.statements import halt as halting
from turnstile.statements import join as joining
from turnstile.statements import once_values as recorded_values
from turnstile.statements import read_claims as reading_claims
from turnstile.statements import redrive_audit as redrive_record
from turnstile.statements import renew_lease as renew
from turnstile.statements import submit as submission
from turnstile.statements import submit_on_busy as double_texting
from turnstile.statements import worker_registry as registry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]
Statement = Callable[[Tables, Parameters], Rows]

STATEMENTS: dict[str, Statement] = {
    "SELECT 1": store_cancel.ping,
    submission.SUBMIT: store_submit.submit,
    submission.READ_SUBMISSIONS: store_submit.read_submissions,
    submission.FORGET_SUBMISSIONS: store_submit.forget_submissions,
    claim.CLAIM: store_claim.claim,
    reading_claims.READ_CLAIMS: store_claim.read_claims,
    recorded_values.READ_VALUES: store_children.read_values,
    recorded_values.RECORD_VALUE: store_children.record_value,
    recorded_values.REREAD_VALUE: store_children.reread_value,
    children.READ_CHILDREN: store_children.read_children,
    children.READ_STATES: store_children.read_states,
    children.READ_OUTPUTS: store_children.read_outputs,
    compensation.COMPENSATE_FAILED: store_children.compensate_failed,
    joining.WAKE_PARENTS: store_children.wake_parents,
    joining.WAKE_JOINED: store_children.wake_joined,
    renew.RENEW: store_claim.renew,
    settle.SETTLE: store_claim.settle,
    settle.REREAD_SETTLED: store_claim.reread_settled,
    session_head.WAKE_HEAD: store_relay.wake_head,
    defer.DEFER: store_relay.defer,
    waiting_tenants.FIND_WAITING_TENANT: store_relay.find_waiting_tenant,
    schedule.PLACE_SCHEDULED: store_relay.place_scheduled,
    lost_turns.MARK_LOST: store_relay.mark_lost,
    lost_turns.FIND_LOST: store_relay.find_lost,
    relay_statements.TAKE_DUE: store_relay.take_due,
    schedule.FIND_UNPLACED: store_relay.find_unplaced,
    relay_statements.FIND_DUE: store_relay.find_due,
    relay_statements.SET_RESEND_DEADLINE: store_relay.set_resend_deadline,
    relay_statements.GIVE_BACK: store_relay.give_back,
    relay_statements.DEAD_LETTERED: store_relay.dead_lettered,
    backlog.BACKLOG: store_relay.backlog,
    memory_items.PRUNE_ITEMS: store_relay.prune_items,
    cancellation.LOCK_SESSION: store_cancel.lock_session,
    cancellation.LOCK_NAMED_SESSION: store_cancel.lock_named_session,
    cancellation.LOCK_OPEN: store_cancel.lock_open,
    cancellation.LOCK_TURN: store_cancel.lock_turn,
    cancellation.READ_ARCHIVED: store_cancel.read_archived,
    cancellation.CANCEL_PENDING: store_cancel.cancel_pending,
    cancellation.REQUEST_CANCEL: store_cancel.request_cancel,
    halting.READ_HALT: store_halting.read_halt,
    halting.LOCK_HALTED: store_halting.lock_halted,
    halting.RETRY: store_halting.retry,
    halting.OWE_DEAD_LETTER: store_halting.owe_dead_letter,
    halting.RESUME: store_halting.resume,
    chosen_ids.LEAVE_TOMBSTONE: store_cancel.leave_tombstone,
    chosen_ids.FORGET_CHOSEN_IDS: store_submit.forget_chosen_ids,
    double_texting.TAKE_KEY: store_on_busy.take_key,
    double_texting.LOCK_SESSION: store_on_busy.lock_session,
    double_texting.BUSY_WITH: store_on_busy.busy_with,
    double_texting.LOCK_LAST: store_on_busy.lock_last,
    double_texting.ADD_INPUT: store_on_busy.add_input,
    double_texting.KEEP_ANSWER: store_on_busy.keep_answer,
    locked_rows.BOUND_WAIT: store_cancel.no_answer,
    redrive.REVIVE: store_relay.revive,
    redrive.FIND_COMPENSATED: store_children.find_compensated,
    redrive.READ_GENERATIONS: store_submit.read_generations,
    redrive.READ_OWNER: store_submit.read_owner,
    redrive_record.BEGIN: store_cancel.begin_redrive,
    redrive_record.NOTE: store_cancel.no_answer,
    redrive_record.CONTINUE: store_cancel.begin_redrive,
    redrive_record.FINISH: store_cancel.no_answer,
    redrive_record.RECORD: store_cancel.no_answer,
    registry.ANNOUNCE: store_cancel.announce,
    registry.WITHDRAW: store_cancel.withdraw,
    history.HISTORY_PAGE: store_submit.history_page,
    history.HISTORY_AS_TEXT: store_submit.history_as_text,
    history.VERSION: store_submit.version,
    attempts.READ: store_submit.read_attempts,
}


class FakeDatabase:
    """`now` is the virtual clock in seconds; `origin` is the moment at which it stands at 0.

    `execute` and `execute_pipelined` are the synchronous cores, for a wrapper that puts delays and lost answers around
    them. A statement that it does not know is a LookupError; what Postgres would refuse is the psycopg error.
    """

    def __init__(self, now: Callable[[], float], origin: datetime = EPOCH) -> None:
        self.tables = Tables(now, origin)
        self._now = now

    # --- synchronous cores

    def execute(self, statement: str, parameters: Parameters) -> Rows:
        return self.execute_pipelined([(statement, parameters)])[0]

    def execute_pipelined(self, statements: Sequence[tuple[str, Parameters]]) -> list[Rows]:
        with self.tables.transaction():
            return [_find(statement)(self.tables, parameters) for statement, parameters in statements]

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return self.execute(statement, parameters)

    async def fetch_pipelined(self, statements: Sequence[tuple[str, Parameters]]) -> list[Rows]:
        return self.execute_pipelined(statements)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["FakeConnection"]:
        """As `Database.connection`. Its `transaction()` must not be interrupted by another task's call."""
        yield FakeConnection(self.tables)

    def for_another_process(self) -> "FakeDatabase":
        """The same tables as another process sees them."""
        other = FakeDatabase(self._now)
        other.tables = self.tables
        return other

    def fill(self, evidence: Evidence) -> None:
        """Puts audit, turns, messages and attempts into `evidence`."""
        store_evidence.fill(self.tables, evidence)


def _find(statement: str) -> Statement:
    found = STATEMENTS.get(statement)
    if found is None:
        raise LookupError(f"the fake store does not know this statement: {' '.join(statement.split())[:200]}")
    return found


class FakeCursor:
    """The rows of one statement, as an asynchronous cursor has them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = iter(rows)

    async def fetchone(self) -> dict[str, Any] | None:
        return next(self._rows, None)

    async def fetchall(self) -> Rows:
        return list(self._rows)


class FakeConnection:
    """The asynchronous connection of `statements.cancel` and `statements.halt`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with self._tables.transaction():
            yield

    async def execute(self, statement: str, parameters: Parameters) -> FakeCursor:
        with self._tables.transaction():
            return FakeCursor(_find(statement)(self._tables, parameters))
