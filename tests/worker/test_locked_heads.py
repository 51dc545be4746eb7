"""Another transaction has locked the rows of heads for long: only their sessions wait, and their wake-ups stay in the queue."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.claims import claim_one, expire_leases, settle_one, statuses, submit_turns
from tests.support.factories import PROVEN, make_submission
from tests.support.probes import until
from tests.support.process_roles import as_worker
from tests.support.processors import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.row_locks import HANGS, rows_locked
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, MessageStaysError, UnknownQueueError
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.statements.claim import CLAIM
from turnstile.statements.defer import DEFER
from turnstile.statements.lost_turns import mark_lost
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.consumer import Consumer
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight

RESEND_SECONDS = 600.0
POOL = 6
"""As many connections as a worker has."""


class Gone(Noting):
    """Nothing can be sent."""

    async def send(self, queue: str, *_: Any) -> None:
        raise UnknownQueueError(queue)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A resend deadline that no test waits for."""
    return settings.model_copy(update={"resend_seconds": RESEND_SECONDS, "lease_seconds": 30.0})


async def stays(processor: Processor, turn_id: UUID, session_id: str = "s") -> None:
    """Asserts that the wake-up is not processed, and must be given back."""
    with pytest.raises(MessageStaysError):
        await asyncio.wait_for(processor.process(message_about(turn_id, session_id)), HANGS)


async def test_locked_heads_delay_no_other_session_and_are_answered_after_the_lock_ends(
    settings: Settings, queues: MessageQueues, lock: SessionLock
) -> None:
    wanted = [make_submission(settings.queue, name) for name in (*(f"locked-{n}" for n in range(POOL + 2)), "free")]
    stopping = asyncio.Event()
    async with Database(as_worker(settings).database, "test", size=POOL, pinned=True, wait_seconds=30.0) as pool:
        await submit(pool, wanted, resend_seconds=RESEND_SECONDS)
        *locked, free = [OutgoingMessage(WakeUp("t", one.session_id, one.turn_id), "") for one in wanted]
        with processing(settings, pool, lock, "w", queues=queues, stopping=stopping) as processor:
            in_flight = TurnsInFlight()
            consumer = Consumer(queues, settings.queue, Slots(64), in_flight, processor.process, stopping)
            with rows_locked(settings, "session_id LIKE 'locked%'"):
                await queues.send(settings.queue, locked)
                polling = asyncio.create_task(consumer.run())
                await until(lambda: len(in_flight) == len(locked))
                await until(lambda: len(in_flight) == 0, within=HANGS)
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
            await asyncio.wait_for(in_flight.finished(), 30)


@pytest.mark.parametrize("lost", [False, True], ids=["due", "lost"])
async def test_a_claim_that_commits_after_its_response_was_lost_is_found_by_its_run(
    settings: Settings, database: Database, lock: SessionLock, lost: bool
) -> None:
    """A COMMIT hangs, for lack of its standby. The worker hangs up, asks again and meets its own lock."""
    [turn_id] = await submit_turns(database, settings, "one")
    if lost:
        await claim_one(database, settings, "killed")
        await expire_leases(database)
        await mark_lost(database, PROVEN.by, PROVEN.proven_seconds, 1)
    committing, gone_on = asyncio.Event(), asyncio.Event()

    class HangsAtTheFirstCommit:
        """The database. It commits the first claim when the second one has seen its lock, and never answers it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(database, name)

        async def fetch_pipelined(self, calls: Any) -> Any:
            # Without a seat in quarantine a claim takes no lost turn.
            if calls[0][0] != CLAIM or calls[0][1]["most_crashes"] < [int(lost)]:
                return await database.fetch_pipelined(calls)
            if not committing.is_set():
                hanging.append(asyncio.create_task(self._commit_late(calls[0])))
                await committing.wait()
                raise DatabaseUnavailableError("no response")
            found = await database.fetch_pipelined(calls)
            gone_on.set()
            return found

        async def _commit_late(self, call: Any) -> None:
            async with database.connection() as connection, connection.transaction():
                await connection.execute(*call)
                committing.set()
                await gone_on.wait()

    hanging: list[asyncio.Task[None]] = []
    with processing(settings, cast("Any", HangsAtTheFirstCommit()), lock, "w") as processor:
        await asyncio.wait_for(processor.process(message_about(turn_id)), HANGS)

    await asyncio.gather(*hanging)
    [row] = await database.fetch("SELECT status, attempt, crashes FROM turns", {})
    assert row == {"status": "SUCCEEDED", "attempt": 1 + lost, "crashes": int(lost)}


@pytest.mark.parametrize("queue_of_head", ["turns", "other"])
async def test_the_message_stays_while_the_head_is_locked(
    settings: Settings, database: Database, lock: SessionLock, queue_of_head: str
) -> None:
    both = settings.model_copy(update={"queues": (*settings.queues, QueueSettings(name="other"))})
    wanted, sqs = [make_submission(queue_of_head), make_submission(settings.queue)], Noting()
    await submit(database, wanted, resend_seconds=RESEND_SECONDS)

    with processing(both, database, lock, "w", queues=sqs) as processor, rows_locked(settings, "seq = 1"):
        await stays(processor, wanted[1].turn_id)

    assert (sqs.deleted, sqs.sent) == ([], [])


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize("queues_are", [Noting, Gone])
async def test_another_message_is_sent_if_the_first_is_deleted_already(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool, queues_are: type[Noting]
) -> None:
    first, _ = await submit_turns(database, settings, "one", "two")
    message, sqs = message_about(first), queues_are()

    with (
        processing(settings, database, lock, "w", queues=sqs, fifo=fifo) as processor,
        rows_locked(settings, "seq = 2"),
    ):
        assert await asyncio.wait_for(processor.process(message), HANGS) is None

    assert sqs.deleted == [message]
    assert [sent.wake_up for sent in sqs.sent] == ([] if isinstance(sqs, Gone) else [WakeUp("t", "s", first)])


async def test_a_head_that_is_locked_for_a_moment_is_made_due(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # A relay or another worker locks a row for the time of a statement.
    other = settings.model_copy(update={"queues": (*settings.queues, QueueSettings(name="other"))})
    head, second = make_submission("other"), make_submission(settings.queue)
    await submit(database, [head, second], resend_seconds=RESEND_SECONDS)
    sqs = Noting()

    with rows_locked(settings, "queue = 'other'") as transaction:

        class Watched:
            """The database; the row is unlocked as soon as a statement has found it locked."""

            def __getattr__(self, name: str) -> Any:
                return getattr(database, name)

            async def fetch(self, statement: Any, parameters: Any) -> Any:
                rows = await database.fetch(statement, parameters)
                if statement == DEFER:
                    transaction.rollback()
                return rows

        with processing(other, cast("Any", Watched()), lock, "w", queues=sqs) as processor:
            await asyncio.wait_for(processor.process(message_about(second.turn_id)), HANGS)

    [row] = await database.fetch("SELECT send_at <= now() AS due FROM turns WHERE queue = 'other'", {})
    assert (row["due"], len(sqs.deleted)) == (True, 1)


async def test_a_head_that_is_answered_in_the_same_run_after_all_leaves_no_message(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # Another wake-up makes the run claim once more.
    [first] = await submit_turns(database, settings, "one")
    message, another = message_about(first), message_about(first)
    sqs = Noting()

    with (
        rows_locked(settings, "true") as transaction,
        processing(settings, database, lock, "w", queues=sqs) as processor,
    ):
        claim = processor.claimer.claim

        async def claim_and_unlock(run: Any) -> Any:
            found = await claim(run)
            if run.stays is not None:
                await processor.process(another)
                transaction.rollback()
            return found

        processor.claimer.claim = claim_and_unlock  # type: ignore[method-assign]
        await asyncio.wait_for(processor.process(message), HANGS)

    assert await statuses(database) == {"s": "SUCCEEDED"}
    assert (sqs.deleted, sqs.sent) == ([another, message], [])


async def test_the_message_of_a_locked_session_stays_at_a_full_cap(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    capped = settings.model_copy(update={"tenant_slots": 1})
    wanted = [make_submission(settings.queue, session) for session in ("first", "locked", "free")]
    await submit(database, wanted, resend_seconds=RESEND_SECONDS)
    first, locked, free = wanted
    deferred = message_about(free.turn_id, "free")
    began, going_on, sqs, slots = asyncio.Event(), asyncio.Event(), Noting(), Slots(64)

    async def answer(*_: object) -> None:
        began.set()
        await going_on.wait()

    with processing(capped, database, lock, "w", Handler(answer), queues=sqs, slots=slots) as processor:
        running = asyncio.create_task(processor.process(message_about(first.turn_id, "first")))
        await began.wait()
        with rows_locked(settings, "session_id = 'locked'"):
            await asyncio.gather(stays(processor, locked.turn_id, "locked"), processor.process(deferred))

        assert sqs.deleted == [deferred]
        going_on.set()
        await running


# --- a session that another worker runs, while Redis takes no waiting mark


async def test_a_message_without_a_lock_stays_while_another_worker_runs_its_session(
    settings: Settings, database: Database
) -> None:
    without_redis = OwnSessionLock(settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"}))
    first, second = make_submission(settings.queue), make_submission(settings.queue)
    await submit(database, [first, second], resend_seconds=RESEND_SECONDS)
    running = await claim_one(database, settings, "another")
    assert isinstance(running, ClaimedTurn)

    with processing(settings, database, without_redis, "w") as processor:
        await stays(processor, second.turn_id)

        # The other worker's settle has not seen the second turn.
        await settle_one(database, settings, running, more=False)
        await processor.process(message_about(second.turn_id))
        # Nothing is due now: this message can go.
        await processor.process(message_about(second.turn_id))

    await without_redis.close()
    rows = await database.fetch("SELECT status FROM turns", {})
    assert [row["status"] for row in rows] == ["SUCCEEDED", "SUCCEEDED"]


async def test_a_message_under_the_lock_is_deleted_while_another_worker_runs_its_session(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # The other worker has lost its lock: it finds that at its unlock, and looks once more.
    first, _ = await submit_turns(database, settings, "first", "second")
    await claim_one(database, settings, "another")
    sqs, message = Noting(), message_about(first)

    with processing(settings, database, lock, "w", queues=sqs) as processor:
        await processor.process(message)

    assert sqs.deleted == [message]
