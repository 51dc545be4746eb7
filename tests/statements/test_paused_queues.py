"""Paused queues: the table that workers and relays read."""

from turnstile.backends.postgres.database import Database
from turnstile.statements.paused_queues import pause_queue, read_paused_queues, resume_queue


async def test_a_paused_queue_says_who_paused_it_and_why(database: Database) -> None:
    assert await pause_queue(database, "turns", paused_by="ada", reason="the provider is down")

    paused = (await read_paused_queues(database))["turns"]
    assert (paused.paused_by, paused.reason) == ("ada", "the provider is down")


async def test_a_second_pause_without_another_reason_changes_nothing(database: Database) -> None:
    await pause_queue(database, "turns", paused_by="ada", reason="the provider is down")

    for reason in (None, "the provider is down"):
        assert not await pause_queue(database, "turns", paused_by="bob", reason=reason)

    assert (await read_paused_queues(database))["turns"].paused_by == "ada"


async def test_a_pause_takes_another_reason_and_began_when_it_did(database: Database) -> None:
    await pause_queue(database, "turns", paused_by="ada", reason=None)
    first = (await read_paused_queues(database))["turns"]

    assert await pause_queue(database, "turns", paused_by="bob", reason="the provider is down")

    paused = (await read_paused_queues(database))["turns"]
    assert (paused.paused_by, paused.reason, paused.paused_at) == ("bob", "the provider is down", first.paused_at)


async def test_a_resumed_queue_is_no_longer_paused(database: Database) -> None:
    await pause_queue(database, "turns", paused_by="ada", reason=None)

    assert await resume_queue(database, "turns", resumed_by="ada")

    assert await read_paused_queues(database) == {}
    assert not await resume_queue(database, "turns", resumed_by="ada")
