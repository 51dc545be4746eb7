"""Reads: a session's history, a turn with its reply, lists. Always within one tenant."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.queries.history import read_history, session_exists
from turnstile.queries.turns import TurnFilter, list_turns, read_turn
from turnstile.statements.cancel import cancel
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


def success(reply: Any) -> Settlement:
    return Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)


FAILURE = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error="x")


async def answer_next(database: Database, settings: Settings, settlement: Settlement) -> ClaimedTurn:
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, settlement)
    return turn


@pytest.fixture
async def conversation(database: Database, settings: Settings) -> None:
    """Five turns: three answered, the second FAILED, the fourth CANCELED; a sixth waits."""
    await submit_turns(database, settings, *(f"in {number}" for number in range(1, 7)))
    (fourth,) = await database.fetch("SELECT id FROM turns WHERE seq = 4", {})
    await cancel(database, "t", fourth["id"], CancelReason.USER)
    for settlement in (success("out 1"), FAILURE, success("out 3"), success("out 5")):
        await answer_next(database, settings, settlement)


async def said(database: Database, limit: int = 100, **wanted: Any) -> list[Any]:
    return [message.content for message in await read_history(database, "t", "s", limit=limit, **wanted)]


# --- history


async def test_the_history_is_what_was_said_in_answered_turns_oldest_first(
    database: Database, conversation: None
) -> None:
    history = await read_history(database, "t", "s", limit=100)

    assert [(one.seq, one.role, one.content) for one in history] == [
        (1, "user", "in 1"),
        (1, "assistant", "out 1"),
        (3, "user", "in 3"),
        (3, "assistant", "out 3"),
        (5, "user", "in 5"),
        (5, "assistant", "out 5"),
    ]


@pytest.mark.parametrize(("limit", "expected"), [(1, ["out 5"]), (3, ["out 3", "in 5", "out 5"])])
async def test_a_limited_history_is_the_end_of_it(
    database: Database, conversation: None, limit: int, expected: list[str]
) -> None:
    assert await said(database, limit) == expected


async def test_a_history_before_a_turn_leaves_that_turn_out(database: Database, conversation: None) -> None:
    assert await said(database, before_seq=5) == ["in 1", "out 1", "in 3", "out 3"]
    assert await said(database, limit=2, before_seq=3) == ["in 1", "out 1"]
    assert await said(database, before_seq=1) == []


async def test_what_is_not_a_message_is_not_in_the_history(database: Database, conversation: None) -> None:
    await database.fetch(
        "INSERT INTO messages (turn_id, ordinal, role, kind, content)"
        " SELECT id, 9, 'assistant', 'partial', '\"half a s\"' FROM turns WHERE seq = 1",
        {},
    )

    assert "half a s" not in await said(database)


async def test_another_tenants_session_of_the_same_name_has_its_own_history(
    database: Database, conversation: None
) -> None:
    assert await read_history(database, "another", "s", limit=100) == []


async def test_another_session_has_its_own_history(database: Database, conversation: None) -> None:
    assert await read_history(database, "t", "another", limit=100) == []


# --- one turn


async def test_a_turn_is_read_with_its_reply(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    answered = await answer_next(database, settings, success({"say": ["hi"]}))

    turn = await read_turn(database, "t", answered.id)

    assert turn is not None
    assert (turn.status, turn.output, turn.seq, turn.attempt) == (TurnStatus.SUCCEEDED, {"say": ["hi"]}, 1, 1)
    assert turn.finished_at is not None


async def test_a_turn_that_is_not_answered_has_no_reply(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await answer_next(database, settings, FAILURE)

    turn = await read_turn(database, "t", failed.id)

    assert turn is not None
    assert (turn.status, turn.output, turn.error_class, turn.error) == (TurnStatus.FAILED, None, "Boom", "x")


async def test_another_tenants_turn_is_not_there(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    answered = await answer_next(database, settings, success("hi"))

    assert await read_turn(database, "another", answered.id) is None
    assert await read_turn(database, "t", uuid4()) is None


# --- lists


@pytest.fixture
async def listed(database: Database, settings: Settings) -> list[UUID]:
    """Turns of two tenants, two sessions and two queues, in the order they were made; the first is answered."""
    made = [
        make_submission(settings.queue, "s"),
        make_submission(settings.queue, "s"),
        make_submission(settings.queue, "other"),
        make_submission("another", "s"),
        make_submission(settings.queue, "s", tenant_id="stranger"),
    ]
    for submission in made:
        await submit(database, [submission], net_seconds=60.0)
    await answer_next(database, settings, success("hi"))
    return [submission.turn_id for submission in made]


async def test_turns_are_listed_newest_first_and_those_of_one_tenant_only(
    database: Database, listed: list[UUID]
) -> None:
    found = await list_turns(database, TurnFilter(tenant_id="t"), limit=10)

    assert [turn.id for turn in found] == list(reversed(listed[:4]))
    assert {turn.output for turn in found} == {None}


async def test_a_list_goes_on_where_its_first_page_ended(database: Database, listed: list[UUID]) -> None:
    first = await list_turns(database, TurnFilter(tenant_id="t"), limit=3)
    rest = await list_turns(database, TurnFilter(tenant_id="t"), limit=3, before=(first[-1].created_at, first[-1].id))

    assert [turn.id for turn in first + rest] == list(reversed(listed[:4]))


async def test_turns_are_filtered(database: Database, settings: Settings, listed: list[UUID]) -> None:
    async def wanted(**fields: Any) -> set[int]:
        found = await list_turns(database, TurnFilter(tenant_id="t", **fields), limit=10)
        return {listed.index(turn.id) for turn in found}

    assert await wanted(session_id="s") == {0, 1, 3}
    assert await wanted(status=TurnStatus.SUCCEEDED) == {0}
    assert await wanted(status=TurnStatus.PENDING, session_id="s") == {1, 3}
    assert await wanted(queue=settings.queue) == {0, 1, 2}


async def test_what_waits_is_listed_page_by_page_whether_it_is_scheduled_or_not(
    database: Database, settings: Settings
) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    made = [make_submission(settings.queue, f"s{at}", execute_at=later if at % 2 else None) for at in range(6)]
    for submission in made:
        await submit(database, [submission], net_seconds=60.0)
    wanted = TurnFilter(tenant_id="t", status=TurnStatus.PENDING)

    first = await list_turns(database, wanted, limit=4)
    rest = await list_turns(database, wanted, limit=4, before=(first[-1].created_at, first[-1].id))

    assert len(first) == 4
    assert [turn.id for turn in first + rest] == [submission.turn_id for submission in reversed(made)]


async def test_a_session_exists_for_its_tenant_only(database: Database, listed: list[UUID]) -> None:
    assert await session_exists(database, "t", "other")
    assert not await session_exists(database, "stranger", "other")
    assert not await session_exists(database, "t", "never")


async def test_a_database_that_is_not_there_is_an_outage(settings: Settings) -> None:
    async with Database("postgresql://127.0.0.1:1/none", "test", size=1, wait_seconds=0.2) as nowhere:
        with pytest.raises(DatabaseUnavailableError):
            await nowhere.ping()
