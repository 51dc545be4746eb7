"""Which turn comes next for a reader of a session."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import FAILURE
from tests.support.claims import claimed, settle_one, submit_turns
from tests.support.factories import make_submission
from tests.support.waiting_turns import make_scheduled
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.session_turns import Ahead, Look, SessionTurn, Told, look_ahead
from turnstile.statements.revive import revive
from turnstile.statements.submit import submit
from turnstile.turn.identifiers import start_trace


class Reader:
    """Of session `s`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.told: Told | None = None

    async def look(self, named: UUID | None = None) -> Ahead:
        (ahead,) = await look_ahead(self._database, [Look("t", "s", self.told, named)])
        return ahead

    async def next(self) -> UUID | None:
        turn = (await self.look()).next
        return None if turn is None else turn.standing.id

    async def is_told(self, turn_id: UUID) -> None:
        turn = (await self.look(turn_id)).named
        assert turn is not None
        self.told = Told(turn.seq, turn.queued_at)


@pytest.fixture
def reader(database: Database) -> Reader:
    return Reader(database)


async def end(database: Database, settings: Settings) -> None:
    await settle_one(database, settings, await claimed(database, settings))


async def test_a_session_that_does_not_exist_has_nothing(reader: Reader) -> None:
    assert await reader.look() == Ahead(0, None, None, None)


async def test_a_reader_that_knows_nothing_begins_with_the_head(
    reader: Reader, database: Database, settings: Settings
) -> None:
    _, second, _ = await submit_turns(database, settings, "a", "b", "c")
    await end(database, settings)

    ahead = await reader.look()

    assert await reader.next() == second
    assert (ahead.last_seq, ahead.following) == (3, None)


async def test_turns_that_ended_meanwhile_come_in_their_order(
    reader: Reader, database: Database, settings: Settings
) -> None:
    turns = await submit_turns(database, settings, "a", "b", "c", "d")
    for _ in range(3):
        await end(database, settings)

    found = []
    await reader.is_told(turns[0])
    while (turn := await reader.next()) is not None and turn != turns[3]:
        found.append(turn)
        await reader.is_told(turn)

    assert found == turns[1:3]
    assert turn == turns[3]


async def test_a_reader_that_waits_for_the_first_turn_is_told_it_also_after_its_end(
    reader: Reader, database: Database, settings: Settings
) -> None:
    reader.told = Told((await reader.look()).last_seq, None)

    (turn,) = await submit_turns(database, settings, "a")
    await end(database, settings)

    assert await reader.next() == turn


async def test_after_the_last_turn_there_is_nothing(reader: Reader, database: Database, settings: Settings) -> None:
    (turn,) = await submit_turns(database, settings, "a")
    await end(database, settings)
    await reader.is_told(turn)

    assert await reader.next() is None


async def test_a_turn_that_is_put_to_work_again_comes_again_and_those_after_it_do_not(
    reader: Reader, database: Database, settings: Settings
) -> None:
    first, second = await submit_turns(database, settings, "a", "b")
    await settle_one(database, settings, await claimed(database, settings), FAILURE)
    await end(database, settings)
    await reader.is_told(second)
    assert await reader.next() is None

    trace = start_trace(1 << 64 | 1)
    await revive(database, [(first, 1)], [trace], expires_in_seconds=[60], resend_seconds=60)
    assert await reader.next() == first

    await end(database, settings)
    await reader.is_told(first)
    assert await reader.next() is None


async def test_a_scheduled_turn_is_not_told_before_it_has_a_place(
    reader: Reader, database: Database, settings: Settings
) -> None:
    scheduled = await make_scheduled(database, settings)

    assert await reader.look(scheduled) == Ahead(0, None, None, None)


async def test_a_turn_of_another_session_is_not_named(reader: Reader, database: Database, settings: Settings) -> None:
    (other,) = await submit_turns(database, settings, "a", session_id="other")

    assert (await reader.look(other)).named is None
    assert (await reader.look(uuid4())).named is None


async def test_many_readers_share_a_query(database: Database, settings: Settings) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    wanted = [make_submission(settings.queue, f"s{n}", "x") for n in range(3)]
    await submit(database, wanted, resend_seconds=60)

    looks = [Look("t", f"s{n}", Told(0, at) if n else None) for n in (2, 0, 1)]
    found = [ahead.next for ahead in await look_ahead(database, [*looks, Look("u", "s1")])]

    assert found[3] is None
    assert [_id(turn) for turn in found[:3]] == [wanted[2].turn_id, wanted[0].turn_id, wanted[1].turn_id]


def _id(turn: SessionTurn | None) -> UUID | None:
    return None if turn is None else turn.standing.id
