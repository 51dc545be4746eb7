"""Another transaction has locked the row of a running turn, or its session's: its settle waits, and no other with it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import SUCCESS
from tests.support.claims import claim_sessions, outcomes, statuses, submit_turns
from tests.support.factories import make_submission, make_terms
from tests.support.probes import until
from tests.support.process_roles import as_worker
from tests.support.processors import message_about, processing
from tests.support.row_locks import HANGS
from turnstile.backends.postgres.database import Connection, Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.sealing.contents import PLAIN
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import SETTLE, RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import SessionLock

TURN, SESSION = "turns", "sessions"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0, on_failure="halt")


@pytest.fixture
async def patient(settings: Settings) -> AsyncIterator[Database]:
    """Waits for locked rows longer than any test."""
    async with Database(
        as_worker(settings).database, "patient", size=6, statement_timeout_seconds=600, lock_timeout_seconds=600
    ) as opened:
        yield opened


@contextmanager
def row_lock(settings: Settings, on: str, session_id: str = "locked") -> Iterator[psycopg.Connection]:
    """A transaction that has locked that session's rows of one table until the block ends."""
    with psycopg.connect(settings.database_url) as transaction:
        transaction.execute(f"SELECT FROM {on} WHERE session_id = %s FOR NO KEY UPDATE", [session_id])  # type: ignore[call-overload]
        yield transaction
        transaction.rollback()


class Watched:
    """The database, and how many settles were asked of it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.settles = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch_pipelined(self, statements: Sequence[Any]) -> Any:
        self.settles += sum(statement == SETTLE for statement, _ in statements)
        return await self._database.fetch_pipelined(statements)


@pytest.mark.parametrize(
    ("on", "ends_as"),
    [(TURN, "SUCCEEDED"), (SESSION, "FAILED")],
    ids=["turn", "session that is halted"],
)
async def test_a_locked_row_delays_its_own_settle_and_no_other_of_the_worker(
    settings: Settings, patient: Database, lock: SessionLock, on: str, ends_as: str
) -> None:
    wanted = [make_submission(settings.queue, session) for session in ("locked", "free")]
    await submit(patient, wanted, resend_seconds=600)
    locked, free = (message_about(one.turn_id, one.session_id) for one in wanted)
    began, going_on, database = asyncio.Event(), asyncio.Event(), Watched(patient)

    async def answer(turn: Any, _: object) -> str:
        if turn.session_id == "locked":
            began.set()
            await going_on.wait()
        if ends_as == "FAILED":
            raise LookupError
        return "answer"

    with processing(settings, cast("Any", database), lock, "w", Handler(answer)) as processor:
        running = asyncio.create_task(processor.process(locked))
        await asyncio.wait_for(began.wait(), HANGS)
        with row_lock(settings, on):
            going_on.set()
            await until(lambda: database.settles, within=HANGS)
            await asyncio.wait_for(processor.process(free), HANGS)
            assert await statuses(patient) == {"locked": "RUNNING", "free": ends_as}

        await asyncio.wait_for(running, HANGS)

    assert await statuses(patient) == {"locked": ends_as, "free": ends_as}


async def test_a_turn_whose_settle_waits_for_a_locked_row_is_kept_beyond_its_deadline(
    settings: Settings, patient: Database, lock: SessionLock
) -> None:
    [turn_id] = await submit_turns(patient, settings, "one", session_id="locked")
    ended, database, taken = asyncio.Event(), Watched(patient), list[HeartbeatEntry]()

    async def answer(_: object, __: object) -> str:
        await ended.wait()
        return "answer"

    with processing(settings, cast("Any", database), lock, "w", Handler(answer), taken=taken) as processor:
        running = asyncio.create_task(processor.process(message_about(turn_id, "locked")))
        await until(lambda: taken and taken[0].turn, within=HANGS)
        with row_lock(settings, TURN):
            ended.set()
            await until(lambda: database.settles, within=HANGS)
            # As if the lock had been there for longer than the turn may take.
            taken[0].renew_until = 0.0
            await until(lambda: taken[0].renew_until > time.monotonic(), within=HANGS)

        await asyncio.wait_for(running, HANGS)


# --- the statement's results


def end(turn: ClaimedTurn, settlement: Settlement) -> SettleRequest:
    return SettleRequest(turn=turn, settlement=settlement, more=True, next_claim_id=uuid4())


async def ask(
    database: Database, settings: Settings, *requests: SettleRequest
) -> Sequence[Settled | Superseded | RowLocked]:
    """Settles on a queue that halts; fails if it waits for a row."""
    terms = make_terms(settings, halt=True)
    return await asyncio.wait_for(settle(database, terms, requests), HANGS)


async def test_a_locked_row_of_a_batch_is_not_changed(settings: Settings, patient: Database) -> None:
    for session in ("locked", "free"):
        await submit_turns(patient, settings, "one", "two", session_id=session)
    locked, free = [end(turn, SUCCESS) for turn in await claim_sessions(patient, settings, "locked", "free")]

    with row_lock(settings, TURN) as transaction:
        left, settled = await ask(patient, settings, locked, free)
        # The statement has kept no lock.
        transaction.execute("SELECT FROM sessions WHERE session_id = 'locked' FOR UPDATE NOWAIT")

    assert (left, type(settled)) == (RowLocked(), Settled)
    [row] = await patient.fetch("SELECT status, fence, failures FROM turns WHERE id = %(id)s", {"id": locked.turn.id})
    assert row == {"status": "RUNNING", "fence": locked.turn.fence, "failures": 0}
    assert len(await outcomes(patient)) == 1
    [again] = await ask(patient, settings, locked)
    assert isinstance(again, Settled)
    assert isinstance(settled, Settled)
    assert (again.status, type(again.next)) == (settled.status, type(settled.next))


@pytest.mark.parametrize(
    ("meanwhile", "answer"),
    [
        ("fence = nextval('fence_seq'), attempt = attempt + 1, claim_id = gen_random_uuid()", Superseded()),
        ("cancel_requested_at = now(), cancel_reason = 'requested'", Settled(TurnStatus.CANCELED, NoClaim.IDLE)),
    ],
    ids=["taken over", "canceled"],
)
async def test_changes_made_under_the_lock_count(
    settings: Settings, patient: Database, meanwhile: Any, answer: Settled | Superseded
) -> None:
    await submit_turns(patient, settings, "one", session_id="locked")
    [turn] = await claim_sessions(patient, settings, "locked")
    request = end(turn, SUCCESS)

    with row_lock(settings, TURN) as transaction:
        assert await ask(patient, settings, request) == [RowLocked()]
        transaction.execute("UPDATE turns SET " + meanwhile)
        assert await ask(patient, settings, request) == [RowLocked()]
        transaction.commit()

    assert await ask(patient, settings, request) == [answer]


class UnderWay:
    """The database as one connection has it, with nothing committed yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        yield self._connection

    contents = PLAIN
    _names_tenants = False
    fetch_pipelined: Any = Database.fetch_pipelined
    _naming_tenants: Any = Database._naming_tenants
    _send: Any = Database._send


async def test_a_repeated_settle_finds_the_claim_of_an_earlier_call_under_way(
    settings: Settings, patient: Database
) -> None:
    # Its connection broke, and the server has not noticed. The next turn, if its claim were not found, would wait for a lease.
    await submit_turns(patient, settings, "one", "two")
    [turn] = await claim_sessions(patient, settings, "s")
    request = end(turn, SUCCESS)

    async with patient.connection() as connection:
        await connection.execute("BEGIN")
        [lost] = await ask(cast("Any", UnderWay(connection)), settings, request)
        assert await ask(patient, settings, request) == [RowLocked()]

        class Late(Watched):
            async def fetch_pipelined(self, statements: Sequence[Any]) -> Any:
                if self.settles:
                    await connection.execute("COMMIT")
                return await super().fetch_pipelined(statements)

        [again] = await ask(cast("Any", Late(patient)), settings, request)

    assert isinstance(lost, Settled)
    assert isinstance(again, Settled)
    assert isinstance(again.next, ClaimedTurn)
    assert (again.status, again.next.seq, again.next.fence) == (TurnStatus.SUCCEEDED, 2, lost.next.fence)  # type: ignore[union-attr]
