"""The queue latency decides the resend deadline of a wake-up; neither may be long because of old data."""

from tests.statements.calls import FAILURE
from tests.support.claims import claimed, settle_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.revive import revive
from turnstile.turn.identifiers import start_trace


async def test_the_wait_of_a_redriven_turn_begins_with_its_redrive(
    database: Database, settings: Settings, superuser: Database
) -> None:
    await submit_turns(database, settings, "one")
    failed = await claimed(database, settings)
    await settle_one(database, settings, failed, FAILURE)
    await superuser.fetch("UPDATE turns SET created_at = now() - interval '3 days'", {})
    await revive(database, [(failed.id, 1)], [start_trace(1)], expires_in_seconds=[900.0], resend_seconds=60.0)

    again = await claimed(database, settings)

    assert 0.0 <= again.queue_latency_seconds < 60.0


async def test_the_wait_of_a_turn_begins_with_its_submit(
    database: Database, settings: Settings, superuser: Database
) -> None:
    await submit_turns(database, settings, "one")
    await superuser.fetch("UPDATE turns SET created_at = now() - interval '300 s'", {})

    turn = await claimed(database, settings)

    assert 300.0 <= turn.queue_latency_seconds < 360.0
