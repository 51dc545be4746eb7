"""Records of operators go when they are old enough; rows of workers that were killed go after a day."""

from typing import LiteralString

import pytest

from tests.relay.relays import Sqs
from tests.support.factories import make_worker_record
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay
from turnstile.statements.worker_registry import announce

OLD_RECORDS: tuple[LiteralString, ...] = (
    """INSERT INTO redrives (requested_by, filter, started_at)
       SELECT 'o', '{}', now() - make_interval(days => days) FROM unnest(ARRAY[400, 366, 364, 0]) days""",
    """INSERT INTO audit (kind, actor, subject, created_at)
       SELECT 'queue.paused', 'o', 'queue q', now() - make_interval(days => days) FROM unnest(ARRAY[400, 366, 364, 0]) days""",
    """INSERT INTO erasures (id, tenant_id, requested_by, requested_at, finished_at)
       SELECT gen_random_uuid(), 't' || coalesce(days, 0), 'o', now() - interval '500 days', now() - make_interval(days => days)
         FROM unnest(ARRAY[400, 366, 364, NULL]::int[]) days""",
)


async def counts(database: Database) -> list[int]:
    tables: tuple[LiteralString, ...] = ("redrives", "audit", "erasures")
    return [len(await database.fetch(f"SELECT 1 FROM {table}", {})) for table in tables]


@pytest.mark.parametrize(("days", "left"), [(365.0, [2, 2, 2]), ("forever", [4, 4, 4])])
async def test_records_are_kept_for_as_long_as_declared(
    database: Database, settings: Settings, days: object, left: list[int]
) -> None:
    for statement in OLD_RECORDS:
        await database.fetch(statement, {})

    await Relay(database, Sqs(), settings.model_copy(update={"records_days": days})).round()

    assert await counts(database) == left


async def test_a_worker_that_was_killed_leaves_its_row_for_a_day(database: Database, settings: Settings) -> None:
    for name in ("killed", "lives"):
        await announce(database, make_worker_record(settings.queue, name))
    await database.fetch(
        "UPDATE workers SET seen_at = now() - interval '25 hours' WHERE worker_id = 'killed' RETURNING 1", {}
    )

    await Relay(database, Sqs(), settings).round()

    assert [row["worker_id"] for row in await database.fetch("SELECT worker_id FROM workers", {})] == ["lives"]
