"""The record of a redrive of many turns."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.redrive import Candidate, Redrive, RedriveResult, Survey
from turnstile.queries.failed_turns import FailedFilter
from turnstile.statements.redrive import Revived
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp

MANY, ROW_HOLDS = 2_530, 1_000
"""Turns of a redrive, and of one row at most."""


class Willing(Redrive):
    """Puts every turn back, until `ends_after`, without a queue."""

    ends_after = MANY

    async def revive(self, batch: Sequence[Candidate], result: RedriveResult) -> list[Revived]:
        if len(result.revived) >= self.ends_after:
            raise asyncio.CancelledError
        result.revived += [one.id for one in batch]
        return [Revived(one.queue, 2, OutgoingMessage(WakeUp("t", "s", one.id), "")) for one in batch]

    async def send(self, revived: Sequence[Revived], result: RedriveResult) -> None:
        return

    async def sweep(self, wanted: FailedFilter, result: RedriveResult, **_: Any) -> None:
        return


@pytest.fixture
def redrive(database: Database, queues: MessageQueues, settings: Settings) -> Willing:
    return Willing(database, queues, settings, requested_by="ada@test")


@pytest.fixture
def survey(settings: Settings) -> Survey:
    return Survey(candidates=[Candidate(uuid4(), 1, settings.queue) for _ in range(MANY)])


async def records(database: Database) -> list[dict[str, Any]]:
    return [dict(row) for row in await database.fetch("SELECT * FROM redrives ORDER BY id", {})]


def noted(found: list[dict[str, Any]]) -> list[UUID]:
    return [turn_id for record in found for turn_id in record["turn_ids"]]


async def test_a_large_redrive_is_recorded_in_rows_of_a_bounded_size_that_name_the_first(
    redrive: Willing, survey: Survey, database: Database, settings: Settings
) -> None:
    result = await redrive.run(FailedFilter(queue=settings.queue, error_class="ValueError"), survey)

    first, *further = found = await records(database)
    assert noted(found) == [one.id for one in survey.candidates]
    assert max(len(record["turn_ids"]) for record in found) <= ROW_HOLDS
    assert (first["id"], first["filter"]) == (
        result.redrive_id,
        {"queue": settings.queue, "error_class": "ValueError"},
    )
    assert [record["filter"] for record in further] == [{"continues": first["id"]}] * 2
    assert {(record["queue"], record["requested_by"]) for record in further} == {(settings.queue, "ada@test")}
    assert {record["finished_at"] for record in further} == {first["finished_at"]} != {None}


async def test_a_redrive_that_is_cut_short_has_a_record_without_an_end(
    redrive: Willing, survey: Survey, database: Database
) -> None:
    redrive.ends_after = 2_000

    with pytest.raises(asyncio.CancelledError):
        await redrive.run(FailedFilter(), survey)

    found = await records(database)
    assert noted(found) == [one.id for one in survey.candidates[:2_000]]
    assert {record["finished_at"] for record in found} == {None}
