"""A transaction that submits may stay open for as long as it likes: nobody waits for it, except for a request with its key.

Each call that must not wait runs on a connection that gives up at once where it meets a lock.
"""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.support.callers import ALL, Open, by_psycopg
from tests.support.claims import submit_turns
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import cancel_session
from turnstile.statements.submit import Accepted, submit
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.submission.callers_transaction import Submitter
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.on_busy import OnBusy

AT_ONCE = 0.05


@pytest.fixture
async def impatient(settings: Settings) -> AsyncIterator[Database]:
    async with Database(
        settings.database, "test", size=2, pinned=True, wait_seconds=30.0, lock_timeout_seconds=AT_ONCE
    ) as opened:
        yield opened


@pytest.mark.parametrize("of_caller", ALL, ids=lambda one: one.__name__)
@pytest.mark.parametrize("known", [False, True], ids=["a new session", "a session with turns"])
async def test_the_api_submits_to_this_session_and_to_others_while_the_transaction_is_open(
    of_caller: Open,
    known: bool,
    application_url: str,
    submitter: Submitter,
    database: Database,
    impatient: Database,
    settings: Settings,
) -> None:
    if known:
        await submit_turns(database, settings, "earlier", session_id="chat-1")
    async with of_caller(application_url, submitter) as caller:
        await caller.submit("chat-1", "in the open transaction", key="mine", tenant="t")
        wanted = [make_submission(settings.queue, session, key=f"key:{session}") for session in ("chat-1", "chat-2")]
        answers = await submit(impatient, wanted, resend_seconds=60.0)
        merged = make_submission(settings.queue, "chat-1", on_busy=OnBusy.REJECT, key="key:reject")
        await submit_on_busy(impatient, merged, resend_seconds=60.0)
        await cancel_session(impatient, "t", "chat-1", CancelReason.USER, requested_by="ada")
        await caller.commit()

    assert all(isinstance(answer, Accepted) for answer in answers)


async def test_two_open_transactions_submit_to_the_same_new_session(
    application_url: str, submitter: Submitter, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    async with by_psycopg(application_url, submitter) as one, by_psycopg(application_url, submitter) as other:
        for caller in (one, other):
            caller.where.execute("SET LOCAL lock_timeout = '50ms'")
        first = await one.submit("chat-1", "first")
        second = await other.submit("chat-1", "second")
        await other.commit()
        await Relay(database, queues, settings).round()
        await one.commit()
        await Relay(database, queues, settings).round()

    seqs = {row["id"]: row["seq"] for row in await database.fetch("SELECT id, seq FROM turns", {})}
    assert seqs == {second.id: 1, first.id: 2}


async def test_only_a_request_with_the_same_key_waits_and_then_finds_the_turn(
    application_url: str, submitter: Submitter, database: Database, settings: Settings
) -> None:
    async with by_psycopg(application_url, submitter) as one, by_psycopg(application_url, submitter) as other:
        first = await one.submit("chat-1", "Hello", key="k")
        again = asyncio.create_task(asyncio.to_thread(submitter.submit, other.where, "chat-1", "Hello", key="k"))

        async def waits() -> bool:
            locks = await database.fetch("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'", {})
            return bool(locks)

        await until(waits)
        await one.commit()
        second = await again
        await other.commit()

    assert (second.id, second.repeated) == (first.id, True)


async def test_under_repeatable_read_the_second_of_two_equal_keys_must_be_tried_again(
    application_url: str, submitter: Submitter
) -> None:
    async with by_psycopg(application_url, submitter) as one, by_psycopg(application_url, submitter) as other:
        other.where.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.where.execute("SELECT 1")
        first = await one.submit("chat-1", "Hello", key="k")
        await one.commit()

        with pytest.raises(psycopg.errors.SerializationFailure):
            await other.submit("chat-1", "Hello", key="k")
        await other.rollback()
        second = await other.submit("chat-1", "Hello", key="k")
        await other.commit()

    assert (second.id, second.repeated) == (first.id, True)
