"""Dead letters in the table: which turns are FAILED, and how one goes back to work."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.queries.attempts import read_attempts
from turnstile.queries.failed_turns import FailedFilter, list_failed
from turnstile.statements.cancel import cancel
from turnstile.statements.redrive import Revived, read_generations, revive
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

EXPIRES = 500.0


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


def failure(error_class: str = "Boom") -> Settlement:
    return Settlement(
        status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class=error_class, error="boom",
        dead_letter=True,
    )  # fmt: skip


async def fail_next(database: Database, settings: Settings, error_class: str = "Boom") -> ClaimedTurn:
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, failure(error_class))
    return turn


async def revive_all(database: Database, *failed: tuple[UUID, int]) -> list[Revived]:
    traces = [start_trace(1000 + number << 64 | 7) for number in range(len(failed))]
    return await revive(database, failed, traces, expires_in_seconds=[EXPIRES] * len(failed), net_seconds=60.0)


async def row_of(database: Database, turn_id: UUID) -> dict[str, Any]:
    rows = await database.fetch(
        "SELECT *, extract(epoch FROM expires_at - clock_timestamp())::float8 AS expires_in,"
        " extract(epoch FROM send_at - clock_timestamp())::float8 AS send_in FROM turns WHERE id = %(id)s",
        {"id": turn_id},
    )
    return rows[0]


# --- back to work


async def test_a_revived_turn_has_fresh_budgets_and_a_place_at_the_end_of_its_session(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    failed = await fail_next(database, settings)

    (revived,) = await revive_all(database, (failed.id, 1))

    row = await row_of(database, failed.id)
    assert (row["status"], row["seq"], row["generation"]) == ("PENDING", 3, 2)
    assert (row["attempt"], row["failures"], row["crashes"], row["sends"]) == (0, 0, 0, 0)
    assert (row["error_class"], row["error"], row["finished_at"], row["dead_lettered_at"]) == (None,) * 4
    assert EXPIRES / 2 < row["expires_in"] <= EXPIRES
    assert 30 < row["send_in"] <= 60
    assert (revived.queue, revived.generation) == (settings.queue, 2)
    assert revived.message.wake_up.turn_id == failed.id


async def test_a_revived_turn_has_a_new_trace_which_its_wake_up_carries(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings)

    (revived,) = await revive_all(database, (failed.id, 1))

    row = await row_of(database, failed.id)
    assert row["trace_id"] != failed.trace_id
    assert revived.message.traceparent == f"00-{row['trace_id']}-{row['span_id']}-01"


async def test_a_revived_turn_is_the_same_turn_with_the_same_input(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings)
    await revive_all(database, (failed.id, 1))

    again = await claim_one(database, settings)

    assert isinstance(again, ClaimedTurn)
    assert (again.id, again.inputs, again.attempt, again.generation) == (failed.id, ("one",), 1, 2)
    assert again.fence > failed.fence


async def test_the_attempts_before_and_after_a_redrive_stay_on_record(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings)
    await revive_all(database, (failed.id, 1))
    await settle_one(database, settings, await claim_one(database, settings))

    attempts = await read_attempts(database, failed.tenant_id, failed.id)

    assert [(one.generation, one.attempt, one.outcome) for one in attempts] == [(1, 1, "failed"), (2, 1, "succeeded")]


async def test_of_ten_redrives_at_once_one_revives_the_turn(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings)

    answers = await asyncio.gather(*(revive_all(database, (failed.id, 1)) for _ in range(10)))

    assert sum(len(answer) for answer in answers) == 1
    row = await row_of(database, failed.id)
    assert (row["generation"], row["seq"]) == (2, 2)


async def test_the_turns_of_a_session_come_back_in_their_old_order(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two", "three")
    failed = [await fail_next(database, settings) for _ in range(3)]

    await revive_all(database, *((turn.id, 1) for turn in reversed(failed)))

    assert [(await row_of(database, turn.id))["seq"] for turn in failed] == [4, 5, 6]


async def test_a_dead_letter_of_an_older_generation_revives_nothing(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings)
    await revive_all(database, (failed.id, 1))
    await fail_next(database, settings)

    assert await revive_all(database, (failed.id, 1)) == []
    assert len(await revive_all(database, (failed.id, 2))) == 1


@pytest.mark.parametrize("status", [TurnStatus.PENDING, TurnStatus.RUNNING, TurnStatus.SUCCEEDED, TurnStatus.CANCELED])
async def test_only_a_failed_turn_is_revived(database: Database, settings: Settings, status: TurnStatus) -> None:
    await submit_turns(database, settings, "one")
    (found,) = await database.fetch("SELECT id FROM turns", {})
    if status is TurnStatus.CANCELED:
        await cancel(database, "t", found["id"], CancelReason.USER)
    elif status is not TurnStatus.PENDING:
        turn = await claim_one(database, settings)
        if status is TurnStatus.SUCCEEDED:
            await settle_one(database, settings, turn)
    before = await row_of(database, found["id"])

    assert await revive_all(database, (found["id"], before["generation"])) == []
    assert (await row_of(database, found["id"]))["status"] == status


async def test_redrives_and_submits_of_one_session_do_not_block_one_another(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(5)))
    failed = [await fail_next(database, settings) for _ in range(5)]

    await asyncio.gather(
        *(revive_all(database, (turn.id, 1)) for turn in failed),
        *(submit_turns(database, settings, "new") for _ in range(10)),
    )

    rows = await database.fetch("SELECT seq FROM turns ORDER BY seq", {})
    assert [row["seq"] for row in rows] == list(range(6, 21))


# --- listing


@pytest.fixture
async def failed(database: Database, settings: Settings) -> list[ClaimedTurn]:
    """Three failed turns of two classes, and one that did not fail."""
    await submit_turns(database, settings, "one", "two", "three", "four")
    turns = [await fail_next(database, settings, error_class) for error_class in ("Boom", "Crash", "Boom")]
    await settle_one(database, settings, await claim_one(database, settings))
    return turns


async def test_failed_turns_are_listed_oldest_first(database: Database, failed: list[ClaimedTurn]) -> None:
    listed = await list_failed(database, FailedFilter(), limit=10)

    assert [turn.id for turn in listed] == [turn.id for turn in failed]
    assert [(turn.error_class, turn.error, turn.attempt) for turn in listed] == [
        ("Boom", "boom", 1),
        ("Crash", "boom", 1),
        ("Boom", "boom", 1),
    ]


async def test_a_list_goes_on_where_its_first_page_ended(database: Database, failed: list[ClaimedTurn]) -> None:
    first = await list_failed(database, FailedFilter(), limit=2)
    rest = await list_failed(database, FailedFilter(), limit=2, after=first[-1].id)

    assert [turn.id for turn in first + rest] == [turn.id for turn in failed]


async def test_failed_turns_are_filtered(database: Database, settings: Settings, failed: list[ClaimedTurn]) -> None:
    first, second, third = (turn.id for turn in failed)

    async def listed(**wanted: Any) -> list[UUID]:
        return [turn.id for turn in await list_failed(database, FailedFilter(**wanted), limit=10)]

    assert await listed(error_class="Boom") == [first, third]
    assert await listed(turn_ids=(third, second)) == [second, third]
    assert await listed(queue=settings.queue, error_class="Crash") == [second]
    assert await listed(queue="another") == []
    assert await listed(tenant_id="t") == [first, second, third]
    assert await listed(tenant_id="another") == []


async def test_generations_tell_which_dead_letters_are_outlived(
    database: Database, settings: Settings, failed: list[ClaimedTurn]
) -> None:
    first, second, _ = (turn.id for turn in failed)
    await revive_all(database, (second, 1))

    assert await read_generations(database, [second, first]) == {first: (1, "FAILED"), second: (2, "PENDING")}


async def test_a_revived_turn_may_be_canceled_and_answered_like_any_other(
    database: Database, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue)], net_seconds=60.0)
    failed = await fail_next(database, settings)
    await revive_all(database, (failed.id, 1))

    canceled = await cancel(database, "t", failed.id, CancelReason.USER)

    assert canceled is not None
    assert canceled.status is TurnStatus.CANCELED


async def test_a_turn_that_was_not_worth_a_dead_letter_is_found_only_by_its_id(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, replace(failure(), dead_letter=False))

    assert await list_failed(database, FailedFilter(), limit=10) == []
    assert [one.id for one in await list_failed(database, FailedFilter(turn_ids=(turn.id,)), limit=10)] == [turn.id]
