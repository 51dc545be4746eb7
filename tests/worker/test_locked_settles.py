"""Somebody sits on the row of a turn that runs, or on its session's: its settle waits by itself, and no other with it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import FAILURE, SUCCESS
from tests.support.claiming import claim_sessions, outcomes, statuses, submit_turns
from tests.support.factories import make_submission, make_terms
from tests.support.probes import until
from tests.support.processing import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.row_locks import HANGS
from turnstile.backends.postgres.database import Connection, Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import SETTLE, RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.session_lock import SessionLock

TURN, SESSION = "turns", "sessions"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0, on_failure="halt")


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def patient(settings: Settings) -> AsyncIterator[Database]:
    """Waits for rows for longer than any test."""
    async with Database(
        settings.database_url, "patient", size=6, statement_timeout_seconds=600, lock_timeout_seconds=600
    ) as opened:
        yield opened


@contextmanager
def sitting(settings: Settings, on: str, session_id: str = "held") -> Iterator[psycopg.Connection]:
    """Somebody whose transaction has that session's rows of one table, until the block ends or he lets them go."""
    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute(f"SELECT FROM {on} WHERE session_id = %s FOR NO KEY UPDATE", [session_id])  # type: ignore[call-overload]
        yield somebody
        somebody.rollback()


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
    [(TURN, "SUCCEEDED"), (TURN, "FAILED"), (SESSION, "FAILED")],
    ids=["turn", "turn that halts", "session that is halted"],
)
async def test_a_held_row_keeps_waiting_its_own_settle_and_none_of_the_same_worker(
    settings: Settings, patient: Database, lock: SessionLock, on: str, ends_as: str
) -> None:
    wanted = [make_submission(settings.queue, session) for session in ("held", "free")]
    await submit(patient, wanted, net_seconds=600)
    held, free = (message_about(one.turn_id, one.session_id) for one in wanted)
    began, going_on, database = asyncio.Event(), asyncio.Event(), Watched(patient)

    async def answer(turn: Any, _: object) -> str:
        if turn.session_id == "held":
            began.set()
            await going_on.wait()
        if ends_as == "FAILED":
            raise LookupError
        return "answer"

    with processing(settings, cast("Any", database), lock, "w", Handler(answer)) as processor:
        running = asyncio.create_task(processor.process(held))
        await asyncio.wait_for(began.wait(), HANGS)
        with sitting(settings, on):
            going_on.set()
            await until(lambda: database.settles, within=HANGS)
            await asyncio.wait_for(processor.process(free), HANGS)
            assert await statuses(patient) == {"held": "RUNNING", "free": ends_as}

        await asyncio.wait_for(running, HANGS)

    assert await statuses(patient) == {"held": ends_as, "free": ends_as}


# --- what a settle answers


def end(turn: ClaimedTurn, settlement: Settlement) -> SettleRequest:
    return SettleRequest(turn=turn, settlement=settlement, more=True, next_claim_id=uuid4())


async def ask(
    database: Database, settings: Settings, *requests: SettleRequest
) -> Sequence[Settled | Superseded | RowLocked]:
    """On a queue that halts; fails where it waits for a row."""
    terms = make_terms(settings, halt=True)
    return await asyncio.wait_for(settle(database, terms, requests), HANGS)


@pytest.mark.parametrize(
    ("on", "settlement"),
    [(TURN, SUCCESS), (TURN, FAILURE), (SESSION, FAILURE)],
    ids=["turn", "turn that halts", "session that is halted"],
)
async def test_of_a_batch_what_somebody_sits_on_is_left_as_it_was(
    settings: Settings, patient: Database, on: str, settlement: Settlement
) -> None:
    for session in ("held", "free"):
        await submit_turns(patient, settings, "one", "two", session_id=session)
    held, free = [end(turn, settlement) for turn in await claim_sessions(patient, settings, "held", "free")]

    with sitting(settings, on) as somebody:
        left, settled = await ask(patient, settings, held, free)
        # Neither of the two has been kept.
        somebody.execute("SELECT FROM turns WHERE session_id = 'held' FOR UPDATE NOWAIT")
        somebody.execute("SELECT FROM sessions WHERE session_id = 'held' FOR UPDATE NOWAIT")

    assert (left, type(settled)) == (RowLocked(), Settled)
    [row] = await patient.fetch("SELECT status, fence, failures FROM turns WHERE id = %(id)s", {"id": held.turn.id})
    assert row == {"status": "RUNNING", "fence": held.turn.fence, "failures": 0}
    assert len(await outcomes(patient)) == 1
    [again] = await ask(patient, settings, held)
    assert isinstance(again, Settled)
    assert isinstance(settled, Settled)
    assert (again.status, type(again.next)) == (settled.status, type(settled.next))


async def test_a_success_does_not_look_at_its_session_on_a_queue_that_halts(
    settings: Settings, patient: Database
) -> None:
    await submit_turns(patient, settings, "one", session_id="held")
    [turn] = await claim_sessions(patient, settings, "held")

    with sitting(settings, SESSION):
        answers = await ask(patient, settings, end(turn, SUCCESS))

    assert answers == [Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)]


@pytest.mark.parametrize(
    ("meanwhile", "answer"),
    [
        ("fence = nextval('fence_seq'), attempt = attempt + 1, claim_id = gen_random_uuid()", Superseded()),
        ("cancel_requested_at = now(), cancel_reason = 'requested'", Settled(TurnStatus.CANCELED, NoClaim.IDLE)),
        ("lease_until = now() - interval '1 s'", Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)),
    ],
    ids=["taken over", "canceled", "its lease ran out"],
)
async def test_what_was_done_to_a_held_row_meanwhile_counts(
    settings: Settings, patient: Database, meanwhile: Any, answer: Settled | Superseded
) -> None:
    await submit_turns(patient, settings, "one", session_id="held")
    [turn] = await claim_sessions(patient, settings, "held")
    request = end(turn, SUCCESS)

    with sitting(settings, TURN) as somebody:
        assert await ask(patient, settings, request) == [RowLocked()]
        somebody.execute("UPDATE turns SET " + meanwhile)
        assert await ask(patient, settings, request) == [RowLocked()]
        somebody.commit()

    assert await ask(patient, settings, request) == [answer]


class UnderWay:
    """The database as one connection has it, with nothing committed yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        yield self._connection

    fetch_pipelined: Any = Database.fetch_pipelined


async def test_an_earlier_call_that_is_still_under_way_is_waited_for_and_so_is_the_turn_that_it_claims(
    settings: Settings, patient: Database
) -> None:
    # Its connection broke, and the server has not noticed. Not known to be claimed, the next turn would be nobody's for a lease.
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
