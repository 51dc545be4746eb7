"""A relay deletes old turns beside its rounds, says what it deleted, and leaves the queues that it does not know."""

import pytest
from structlog.testing import capture_logs

from tests.archive.archiving import age, end_turn, in_archive, in_table
from tests.relay.relays import Sqs
from tests.support.metric_readings import rising
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay
from turnstile.retention import delete_turns
from turnstile.turn.status import TurnStatus


def declaring(settings: Settings, **options: object) -> Settings:
    """The same queue with these options."""
    return settings.model_copy(update={"queues": (QueueSettings.model_validate({"name": settings.queue, **options}),)})


async def test_without_an_operator_a_turn_is_deleted_after_the_default_age(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await end_turn(database, settings, "old")
    await age(database, 91)
    fresh = await end_turn(database, settings, "fresh")
    await age(database, 89 - 1)

    await Relay(of_relay, Sqs(), settings).round()

    assert await in_table(database) == [fresh]


async def test_what_was_deleted_is_logged_and_counted_by_status(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await end_turn(database, settings, "a")
    await end_turn(database, settings, "b", TurnStatus.FAILED)
    await age(database)

    metric = {"queue": settings.queue, "to": "nowhere"}
    with (
        capture_logs() as lines,
        rising("turnstile_turns_deleted_total", status="SUCCEEDED", **metric),
        rising("turnstile_turns_deleted_total", status="FAILED", **metric),
    ):
        await Relay(of_relay, Sqs(), settings).round()

    [line] = [line for line in lines if line["event"] == "retention.deleted"]
    assert (line["queue"], line["turns"], line["failed"], line["sessions"]) == (settings.queue, 2, 1, 2)


@pytest.mark.parametrize("days", ["forever", 0])
async def test_a_queue_may_keep_its_turns_for_good(
    database: Database, of_relay: Database, settings: Settings, days: object
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database, 10_000)

    await Relay(of_relay, Sqs(), declaring(settings, retention_days=days)).round()

    assert await in_table(database) == [turn_id]


async def test_a_queue_may_have_an_age_and_an_archive_of_its_own(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database, 8)

    await Relay(of_relay, Sqs(), declaring(settings, retention_days=7, archive_days=30)).round()

    assert (await in_table(database), await in_archive(database)) == ([], [turn_id])


async def test_the_turns_of_a_queue_that_the_relay_does_not_know_stay(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await database.fetch("UPDATE turns SET queue = 'of another relay' RETURNING 1", {})
    await age(database)

    await Relay(of_relay, Sqs(), settings).round()

    assert await in_table(database) == [turn_id]


async def test_more_old_turns_are_deleted_in_the_next_round(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_turns, "BATCH", 2)
    for number in range(5):
        await end_turn(database, settings, f"s{number}")
    await age(database)
    relay = Relay(of_relay, Sqs(), settings)

    for _ in range(3):
        await relay.round()
        await database.fetch("UPDATE retention SET due_at = clock_timestamp() RETURNING 1", {})

    assert await in_table(database) == []
