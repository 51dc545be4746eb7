"""A relay works off a backlog of any age, and deletes old rows without delaying what is due."""

import asyncio
import re
from typing import LiteralString, NoReturn

import psycopg
import pytest
from psycopg.rows import DictRow

from tests.relay.relays import Sqs
from tests.statements.plans.touched import explain
from tests.support.claims import submit_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.memory.durable_items import PRUNE_ITEMS
from turnstile.relay import loop as relay_module
from turnstile.relay import queue_selection
from turnstile.relay.loop import Relay
from turnstile.statements.cancel_before_submit import FORGET_CHOSEN_IDS
from turnstile.statements.submit import FORGET_SUBMISSIONS


async def make_due(database: Database, seconds_ago: float) -> None:
    await database.fetch("UPDATE turns SET send_at = now() - make_interval(secs => %(ago)s)", {"ago": seconds_ago})


@pytest.mark.parametrize("seconds_ago", [1.0, 300.0], ids=["young", "older than the usual reach"])
async def test_a_backlog_of_any_age_is_worked_off_round_by_round(
    database: Database, of_relay: Database, settings: Settings, seconds_ago: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_selection, "BATCH", 20)
    many = 50
    await submit_turns(database, settings, *map(str, range(many)))
    await make_due(database, seconds_ago)
    sqs = Sqs()
    relay = Relay(of_relay, sqs, settings)

    assert [await relay.round() for _ in range(3)] == [True, True, False]

    assert len(sqs.sent) == many


async def test_old_rows_are_looked_for_until_a_round_has_found_the_last_of_them(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_selection, "BATCH", 20)
    sqs = Sqs()
    relay = Relay(of_relay, sqs, settings)
    await submit_turns(database, settings, *map(str, range(20)))
    await make_due(database, 300.0)
    assert await relay.round() is True
    await submit_turns(database, settings, "one more", session_id="other")
    await database.fetch("UPDATE turns SET send_at = now() - interval '300 s' WHERE session_id = 'other'", {})

    await relay.round()

    assert len(sqs.sent) == 21


# --- old rows are deleted


FILL_OLD: tuple[LiteralString, ...] = (
    """INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer, created_at)
       SELECT 't', 'key:' || g, '', gen_random_uuid(), '{}', now() - interval '400 days' + g * interval '1 s'
         FROM generate_series(1, %(many)s::int) g""",
    """INSERT INTO chosen_ids (tenant_id, turn_id, created_at)
       SELECT 't', gen_random_uuid(), now() - interval '400 days' + g * interval '1 s'
         FROM generate_series(1, %(many)s::int) g""",
    """INSERT INTO memory_items (tenant_id, session_id, kind, key, priority, tags, version, write_id, fence, created_at,
                                 updated_at, expires_at)
       SELECT 't', 's', 'fact', g::text, 0, '{}', g, gen_random_uuid(), 1, now(), now(), now() - interval '1 day'
         FROM generate_series(1, %(many)s::int) g""",
)
FORGOTTEN: tuple[LiteralString, ...] = ("submissions", "chosen_ids", "memory_items")


async def left(database: Database) -> list[int]:
    """How many rows each of the tables has."""
    return [(await database.fetch(f"SELECT count(*) AS many FROM {table}", {}))[0]["many"] for table in FORGOTTEN]


class Asked(Database):
    """Notes which deletes it is asked for."""

    def __init__(self, place: DatabasePlace) -> None:
        super().__init__(place, "test", size=1, pinned=True)
        self.deletes: list[str] = []

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        if statement in (FORGET_SUBMISSIONS, FORGET_CHOSEN_IDS, PRUNE_ITEMS):
            self.deletes.append(statement)
        return await super().fetch(statement, parameters)


async def test_old_rows_are_deleted_round_by_round(database: Database, of_relay: Database, settings: Settings) -> None:
    for fill in FILL_OLD:
        await database.fetch(fill, {"many": 2_500})
    relay = Relay(of_relay, Sqs(), settings)

    counts = []
    for _ in range(3):
        await relay.round()
        counts.append(await left(database))

    assert counts == [[1_500] * 3, [500] * 3, [0] * 3]


async def test_a_table_with_more_old_rows_does_not_wait_for_the_others(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await database.fetch(FILL_OLD[1], {"many": 1_001})
    relay = Relay(of_relay, Sqs(), settings)

    await relay.round()
    await relay.round()

    assert await left(database) == [0, 0, 0]


async def test_without_more_old_rows_the_next_delete_is_a_minute_later(settings: Settings) -> None:
    async with Asked(settings.database) as database:
        await database.fetch(FILL_OLD[0], {"many": 999})
        relay = Relay(database, Sqs(), settings)

        for _ in range(3):
            await relay.round()

        assert database.deletes == [FORGET_SUBMISSIONS, FORGET_CHOSEN_IDS, PRUNE_ITEMS]


async def test_a_delete_that_times_out_is_not_repeated_in_each_round(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try would delay what is due for as long as a statement may take."""
    async with Asked(settings.database) as database:
        await database.fetch(FILL_OLD[0], {"many": 2_500})
        relay = Relay(database, Sqs(), settings)
        monkeypatch.setattr(relay_module, "forget_chosen_ids", breaks_off)

        for _ in range(2):
            await relay.round()

        assert database.deletes == [FORGET_SUBMISSIONS, PRUNE_ITEMS]


async def test_a_delete_that_takes_long_delays_no_round(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def hangs(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(relay_module, "forget_submissions", hangs)
    sqs, stopping = Sqs(), asyncio.Event()
    running = asyncio.create_task(Relay(of_relay, sqs, settings).run(stopping))
    await begun.wait()
    await submit_turns(database, settings, "one")
    await make_due(database, 1.0)

    try:
        await until(lambda: sqs.sent)
        stopping.set()
        await asyncio.wait_for(running, 10)
    finally:
        running.cancel()


async def breaks_off(*_: object) -> NoReturn:
    raise DatabaseUnavailableError("canceling statement due to statement timeout")


def test_old_rows_are_found_by_their_age_and_no_others_are_read(settings: Settings) -> None:
    indexes = {
        FORGET_SUBMISSIONS: "submissions_created_at",
        FORGET_CHOSEN_IDS: "chosen_ids_created_at",
        PRUNE_ITEMS: "memory_items_expires_at",
    }
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        for fill, table in zip(FILL_OLD, FORGOTTEN, strict=True):
            connection.execute(fill, {"many": 3_000})
            connection.execute(f"ANALYZE {table}")
        for statement, index in indexes.items():
            text = explain(connection, statement)
            assert re.search(rf"Limit\n +-> +LockRows\n +-> +Index Scan using {index}", text), text
