"""A paused queue: Lambda delivers its messages all the same, and the function begins none of their turns."""

import asyncio
import threading

import psycopg
import pytest
import structlog.testing

from tests.support.factories import Proven
from tests.support.probes import until
from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.backends.postgres.database import Database
from turnstile.handlers.context import Context, Turn
from turnstile.relay.loop import Relay
from turnstile.statements.paused_queues import pause_queue, resume_queue
from turnstile.turn.wire_format import decode


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_no_turn_of_a_paused_queue_begins_and_after_the_resume_all_are_answered(
    site: Site, superuser: Database
) -> None:
    queue, relay = site.settings.queue, Relay(site.database, site.queues, site.settings, Proven())
    await pause_queue(superuser, queue, paused_by="ada", reason=None)
    await site.send("a", "b")

    assert await site.invoke(2) == [], "a message that came back would use up its receives"

    assert await site.rows("status", "attempt", "owed") == [("PENDING", 0, True)] * 2
    assert await site.queues.count(queue) == 0
    await resume_queue(superuser, queue, resumed_by="ada")
    await relay.round()
    assert await site.invoke(2) == []
    assert await site.rows("status", "attempt") == [("SUCCEEDED", 1)] * 2


async def test_a_pause_during_an_invocation_lets_its_turn_end_and_begins_no_next_one(
    site: Site, superuser: Database
) -> None:
    begun = threading.Event()
    await site.send("a", "a")

    with structlog.testing.capture_logs() as lines:

        async def wait_for_the_pause(_: Turn, __: Context) -> str:
            begun.set()
            await until(lambda: "worker.paused" in {line["event"] for line in lines})
            return "ok"

        invoked = asyncio.create_task(site.invoke(2, site.function(wait_for_the_pause)))
        await until(begun.is_set)
        await pause_queue(superuser, site.settings.queue, paused_by="ada", reason=None)
        assert await invoked == []

    assert await site.rows("status") == [("SUCCEEDED",), ("PENDING",)]


async def test_a_malformed_message_of_a_paused_queue_goes_to_the_dlq(site: Site, superuser: Database) -> None:
    await pause_queue(superuser, site.settings.queue, paused_by="ada", reason=None)
    site.source.send("not ours")

    assert await site.invoke(1) == []

    [dead] = await site.queues.receive(site.settings.queue, 10, dead=True)
    assert dead.body == "not ours"


async def test_a_message_of_a_paused_queue_with_a_locked_row_is_reported(site: Site, superuser: Database) -> None:
    """Its row can't be owed a wake-up: without the message, the resume would not wake it."""
    await pause_queue(superuser, site.settings.queue, paused_by="ada", reason=None)
    await site.send("a", "b")

    with psycopg.connect(site.settings.database_url) as other:
        other.execute("SELECT 1 FROM turns WHERE session_id = 'a' FOR NO KEY UPDATE")
        kept = await site.invoke(2)
        other.rollback()

    assert [decode(body).session_id for body in kept] == ["a"]


async def test_turns_are_answered_where_the_table_of_pauses_is_refused(site: Site) -> None:
    await site.send("a")
    with psycopg.connect(site.settings.database_url, autocommit=True) as owner:
        owner.execute("ALTER TABLE paused_queues RENAME TO paused_elsewhere")

    assert await site.invoke(1) == []

    assert await site.rows("status") == [("SUCCEEDED",)]
