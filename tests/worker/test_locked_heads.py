"""Somebody sits on the rows of heads, as long as he likes: their sessions wait by themselves, their wake-ups in the queue."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.support.claiming import statuses, submit_turns
from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processing import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.row_locks import HANGS, sitting
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import UnknownQueueError
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.statements.defer import Defer, Owed, defer
from turnstile.statements.head import WAKE_UNLOCKED_HEAD
from turnstile.statements.submit import submit
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.consumer import Consumer
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

NET_SECONDS = 600.0
POOL = 6
"""As many connections as a worker has."""


class Gone(Noting):
    """Nothing can be given back, nor sent."""

    async def give_back(self, queue: str, *_: Any, **__: Any) -> None:
        raise UnknownQueueError(queue)

    async def send(self, queue: str, *_: Any) -> None:
        raise UnknownQueueError(queue)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A net that no test waits for."""
    return settings.model_copy(update={"net_seconds": NET_SECONDS, "lease_seconds": 30.0})


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


async def test_held_heads_keep_no_other_session_waiting_and_are_answered_when_they_are_let_go(
    settings: Settings, queues: MessageQueues, lock: SessionLock
) -> None:
    wanted = [make_submission(settings.queue, name) for name in (*(f"held-{n}" for n in range(POOL + 2)), "free")]
    stopping = asyncio.Event()
    async with Database(settings.database_url, "test", size=POOL, pinned=True, wait_seconds=30.0) as pool:
        await submit(pool, wanted, net_seconds=NET_SECONDS)
        *held, free = [OutgoingMessage(WakeUp("t", one.session_id, one.turn_id), "") for one in wanted]
        with processing(settings, pool, lock, "w", queues=queues, stopping=stopping) as processor:
            consumer = Consumer(queues, settings.queue, Slots(64), processor.process, stopping)
            with sitting(settings, "session_id LIKE 'held%'"):
                await queues.send(settings.queue, held)
                polling = asyncio.create_task(consumer.run())
                # All connections of the pool were in their hands by now.
                await until(lambda: consumer.busy == len(held))
                await until(lambda: consumer.busy == 0, within=HANGS)
                await queues.send(settings.queue, [free])

                async def is_answered() -> bool:
                    return (await statuses(pool))["free"] == "SUCCEEDED"

                await until(is_answered, within=HANGS)
                assert set((await statuses(pool)).values()) == {"PENDING", "SUCCEEDED"}

            async def all_are() -> bool:
                return set((await statuses(pool)).values()) == {"SUCCEEDED"}

            await until(all_are, within=60.0)
            stopping.set()
            await asyncio.wait_for(polling, 30)
            await asyncio.wait_for(consumer.finished(), 30)


@pytest.mark.parametrize(("receives", "least", "most"), [(1, 1.0, 2.0), (3, 4.0, 8.0), (900, 15.0, 30.0)])
async def test_the_message_of_a_held_head_is_given_back_the_rarer_the_longer_it_lasts(
    settings: Settings, database: Database, lock: SessionLock, receives: int, least: float, most: float
) -> None:
    await submit_turns(database, settings, "one")
    [row] = await database.fetch("SELECT id FROM turns", {})
    wake_up = message_about(row["id"])
    message = ReceivedMessage(wake_up.message_id, wake_up.body, wake_up.receipt_handle, receives, {}, False)
    sqs = Noting()

    with processing(settings, database, lock, "w", queues=sqs) as processor, sitting(settings, "true"):
        await asyncio.wait_for(processor.process(message), HANGS)

    [(given, seconds)] = sqs.given_back
    assert (given, sqs.deleted, sqs.sent) == (message, [], [])
    assert least <= seconds <= most


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_where_the_message_is_deleted_by_then_another_is_sent(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool
) -> None:
    await submit_turns(database, settings, "one", "two")
    first, _ = await database.fetch("SELECT id FROM turns ORDER BY seq", {})
    message = message_about(first["id"])
    sqs = Noting()

    with processing(settings, database, lock, "w", queues=sqs, fifo=fifo) as processor, sitting(settings, "seq = 2"):
        await asyncio.wait_for(processor.process(message), HANGS)

    assert (sqs.deleted, sqs.given_back) == ([message], [])
    assert [sent.wake_up for sent in sqs.sent] == [WakeUp("t", "s", first["id"])]


async def test_where_the_held_head_is_another_queues_the_message_is_given_back(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    other = settings.model_copy(update={"queues": (*settings.queues, QueueSettings(name="other"))})
    head, second = make_submission("other"), make_submission(settings.queue)
    await submit(database, [head, second], net_seconds=NET_SECONDS)
    sqs = Noting()

    with processing(other, database, lock, "w", queues=sqs) as processor, sitting(settings, "queue = 'other'"):
        await asyncio.wait_for(processor.process(message_about(second.turn_id)), HANGS)

    assert (len(sqs.given_back), sqs.deleted) == (1, [])


async def test_a_head_that_is_let_go_a_moment_later_is_due_at_once(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # As by a relay or another worker, who have a row for the time of a statement.
    other = settings.model_copy(update={"queues": (*settings.queues, QueueSettings(name="other"))})
    head, second = make_submission("other"), make_submission(settings.queue)
    await submit(database, [head, second], net_seconds=NET_SECONDS)
    sqs = Noting()

    with sitting(settings, "queue = 'other'") as somebody:

        class Watched:
            """The database; as soon as the row has been met, it is let go."""

            def __getattr__(self, name: str) -> Any:
                return getattr(database, name)

            async def fetch(self, statement: Any, parameters: Any) -> Any:
                rows = await database.fetch(statement, parameters)
                if statement == WAKE_UNLOCKED_HEAD:
                    somebody.rollback()
                return rows

        with processing(other, cast("Any", Watched()), lock, "w", queues=sqs) as processor:
            await asyncio.wait_for(processor.process(message_about(second.turn_id)), HANGS)

    [row] = await database.fetch("SELECT send_at <= now() AS due FROM turns WHERE queue = 'other'", {})
    assert (row["due"], len(sqs.deleted), sqs.given_back) == (True, 1, [])


async def test_a_head_that_was_held_and_is_answered_after_all_leaves_no_message(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # Whoever comes meanwhile has the hold look once more.
    await submit_turns(database, settings, "one")
    [row] = await database.fetch("SELECT id FROM turns", {})
    message, another = message_about(row["id"]), message_about(row["id"])
    sqs = Noting()

    with sitting(settings, "true") as somebody, processing(settings, database, lock, "w", queues=sqs) as processor:
        owe = processor._session_release.owe_wake_up

        async def owe_and_let_go(hold: Any) -> None:
            await owe(hold)
            await processor.process(another)
            somebody.rollback()

        processor._session_release.owe_wake_up = owe_and_let_go  # type: ignore[method-assign]
        await asyncio.wait_for(processor.process(message), HANGS)

    assert await statuses(database) == {"s": "SUCCEEDED"}
    assert (sqs.deleted, sqs.given_back, sqs.sent) == ([another, message], [], [])


@pytest.mark.parametrize("seq", [1, 2])
async def test_a_wake_up_that_no_queue_takes_ends_no_hold_with_an_error(
    settings: Settings, database: Database, lock: SessionLock, seq: int
) -> None:
    await submit_turns(database, settings, "one", "two")
    first, _ = await database.fetch("SELECT id FROM turns ORDER BY seq", {})

    with processing(settings, database, lock, "w", queues=Gone()) as processor, sitting(settings, f"seq = {seq}"):
        assert await asyncio.wait_for(processor.process(message_about(first["id"])), HANGS) is None


async def test_what_somebody_sits_on_is_not_put_off_and_keeps_nobody_else_from_it(
    settings: Settings, database: Database
) -> None:
    wanted = [make_submission(settings.queue, session) for session in ("held", "free")]
    await submit(database, wanted, net_seconds=NET_SECONDS)

    with sitting(settings, "session_id = 'held'"):
        asked = [Defer("t", name, 0.0) for name in ("free", "held")]
        owed_each = await asyncio.wait_for(defer(database, asked), HANGS)

    assert owed_each == [Owed.YES, Owed.LOCKED]
    owed = await database.fetch("SELECT session_id FROM turns WHERE send_at <= now()", {})
    assert [row["session_id"] for row in owed] == ["free"]


async def test_at_a_full_cap_the_message_of_a_held_head_is_given_back(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    capped = settings.model_copy(update={"tenant_slots": 1})
    wanted = [make_submission(settings.queue, session) for session in ("first", "held", "free")]
    await submit(database, wanted, net_seconds=NET_SECONDS)
    first, held, free = (message_about(one.turn_id, one.session_id) for one in wanted)
    began, going_on, sqs, slots = asyncio.Event(), asyncio.Event(), Noting(), Slots(64)

    async def answer(*_: object) -> None:
        began.set()
        await going_on.wait()

    with processing(capped, database, lock, "w", Handler(answer), queues=sqs, slots=slots) as processor:
        running = asyncio.create_task(processor.process(first))
        await began.wait()
        with sitting(settings, "session_id = 'held'"):
            await asyncio.wait_for(asyncio.gather(processor.process(held), processor.process(free)), HANGS)

        assert ([given for given, _ in sqs.given_back], sqs.deleted) == ([held], [free])
        going_on.set()
        await running
