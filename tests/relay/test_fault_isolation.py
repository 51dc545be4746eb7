"""No row and no statement ends a relay: each step fails by itself, and a row that is to blame is stepped round."""

from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import DictRow
from structlog.testing import capture_logs

from tests.relay.relays import Sqs, make_due, rows, submit_due
from tests.statements.calls import FAILURE
from tests.support.claims import claim_one, settle_one, submit_turns
from tests.support.factories import Proven
from tests.support.metric_readings import rising
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.config.settings import Settings
from turnstile.memory.durable_items import PRUNE_ITEMS
from turnstile.relay.loop import Relay
from turnstile.statements.join import WAKE_JOINED
from turnstile.statements.lost_turns import MARK_LOST
from turnstile.statements.owed_messages import DEAD_LETTERED, SET_RESEND_DEADLINE, TAKE_DUE
from turnstile.statements.place_scheduled import PLACE_SCHEDULED

SCHEDULED: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, queue, send_at, execute_at, expires_at, trace_id, span_id)
VALUES (%(id)s, 't', %(session)s, %(queue)s, now(), now(), now() + interval '1 h', %(trace)s, 'b7ad6b7169203331')
"""


async def schedule(database: Database, settings: Settings, session_id: str) -> UUID:
    """A turn that is due now, and has no place yet."""
    turn_id = uuid4()
    await database.fetch(
        "INSERT INTO sessions (tenant_id, session_id) VALUES ('t', %(session)s) ON CONFLICT DO NOTHING",
        {"session": session_id},
    )
    parameters = {"id": turn_id, "session": session_id, "queue": settings.queue, "trace": uuid4().hex}
    await database.fetch(SCHEDULED, parameters)
    return turn_id


async def refuse(database: Database, turn_id: UUID, condition: LiteralString) -> None:
    """From now on the table takes no change of this turn unless the condition is true."""
    async with database.connection() as connection:
        literal = psycopg.sql.Literal(turn_id)
        await connection.execute(
            psycopg.sql.SQL("ALTER TABLE turns ADD CONSTRAINT refused CHECK (id <> {} OR ({})) NOT VALID").format(
                literal, psycopg.sql.SQL(condition)
            )
        )


async def mend(database: Database) -> None:
    await database.fetch("ALTER TABLE turns DROP CONSTRAINT IF EXISTS refused", {})


def failures(lines: list[Any]) -> list[tuple[str, str, str | None]]:
    return [
        (line["step"], line["error_class"], line.get("turn_id"))
        for line in lines
        if line["event"] == "relay.step_failed" and line["log_level"] == "error"
    ]


async def test_a_session_whose_last_seq_lags_delays_no_other_session(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    """As after a restore, or a DELETE by hand."""
    await submit_turns(database, settings, "one", session_id="restored")
    await database.fetch("UPDATE sessions SET last_seq = 0", {})
    refused = await schedule(database, settings, "restored")
    others = [await schedule(database, settings, f"s-{number}") for number in range(20)]
    sqs = Sqs()
    relay = Relay(of_relay, sqs, settings)

    with capture_logs() as lines, rising("turnstile_relay_steps_failed_total"):
        await relay.round()

    places = {row["id"]: row["seq"] for row in await rows(database)}
    assert [places[turn_id] for turn_id in others] == [1] * 20
    assert places[refused] is None
    assert failures(lines) == [("place", "UniqueViolation", str(refused))]
    assert sqs.sent == [settings.queue] * 20
    assert "restored" not in str(lines), "no row values in the log"

    with capture_logs() as lines:
        await relay.round()
    assert failures(lines) == [], "it is left out for a while"


async def test_a_row_that_can_not_be_stamped_delays_no_other(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await submit_due(database, settings.queue, 30)
    refused = (await rows(database))[7]["id"]
    await refuse(database, refused, "send_at <= '2020-01-01'")
    sqs = Sqs()
    try:
        with capture_logs() as lines:
            await Relay(of_relay, sqs, settings).round()
    finally:
        await mend(database)

    assert sqs.sent == [settings.queue] * 29
    assert failures(lines) == [("take", "CheckViolation", str(refused))]


async def test_a_refused_resend_deadline_affects_no_other_row(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await submit_due(database, settings.queue, 30)
    refused = (await rows(database))[7]["id"]
    await refuse(database, refused, "sends = 0")
    try:
        with capture_logs() as lines:
            await Relay(of_relay, Sqs(), settings).round()
    finally:
        await mend(database)

    assert sorted(row["sends"] for row in await rows(database)) == [0] + [1] * 29
    assert failures(lines) == [("set_resend_deadline", "CheckViolation", str(refused))]


async def test_a_dead_letter_that_can_not_be_noted_delays_no_other(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two", "three")
    for _ in range(3):
        await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await make_due(database)
    refused = (await rows(database))[1]["id"]
    await refuse(database, refused, "dead_lettered_at IS NULL")
    try:
        with capture_logs() as lines:
            await Relay(of_relay, Sqs(), settings).round()
    finally:
        await mend(database)

    noted = {row["id"]: row["dead_lettered_at"] is not None for row in await rows(database)}
    assert [turn_id for turn_id, is_noted in noted.items() if not is_noted] == [refused]
    assert failures(lines) == [("dead_letter", "CheckViolation", str(refused))]


class Refusing(Database):
    """Refuses one statement, whatever it is about."""

    def __init__(self, place: DatabasePlace, statement: str) -> None:
        super().__init__(place, "test", size=2, pinned=True)
        self._statement = statement

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        if statement == self._statement:
            raise psycopg.errors.DataCorrupted("an index is damaged")
        return await super().fetch(statement, parameters)


@pytest.mark.parametrize(
    ("statement", "step"),
    [
        (PLACE_SCHEDULED, "place"),
        (MARK_LOST, "mark_lost"),
        (WAKE_JOINED, "wake_joined"),
        (PRUNE_ITEMS, "prune_items"),
        (SET_RESEND_DEADLINE, "set_resend_deadline"),
    ],
    ids=["place", "mark_lost", "wake_joined", "prune_items", "set_resend_deadline"],
)
async def test_a_step_that_always_fails_does_not_stop_the_others(
    settings: Settings, statement: LiteralString, step: str
) -> None:
    async with Refusing(settings.database, statement) as database:
        await schedule(database, settings, "scheduled")
        await submit_due(database, settings.queue, 1)
        sqs = Sqs()

        with capture_logs() as lines:
            await Relay(database, sqs, settings, Proven()).round()

    assert sqs.sent[:1] == [settings.queue]
    assert {(one, error) for one, error, _ in failures(lines)} == {(step, "DataCorrupted")}


@pytest.mark.parametrize("statement", [TAKE_DUE, DEAD_LETTERED], ids=["take", "dead_letter"])
async def test_nothing_that_fails_ends_the_round(settings: Settings, statement: LiteralString) -> None:
    async with Refusing(settings.database, statement) as database:
        await submit_turns(database, settings, "fails")
        await settle_one(database, settings, await claim_one(database, settings), FAILURE)

        with capture_logs() as lines:
            await Relay(database, Sqs(), settings).round()

    assert {error for _, error, _ in failures(lines)} == {"DataCorrupted"}
