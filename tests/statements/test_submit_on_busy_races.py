"""Submits with a policy at the same moment: every input is answered exactly once, superseded or refused."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.support.claims import settle_one
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.row_locks import until_a_call_waits
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, SessionBusyError
from turnstile.statements.cancel import cancel_ahead
from turnstile.statements.claim import NoClaim, claim
from turnstile.statements.settle import Settled
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.statements.submit_on_busy import ADD_INPUT, LOCK_LAST, LOCK_SESSION, OnBusyResult, submit_on_busy
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import idempotency_key
from turnstile.turn.on_busy import OnBusy

CLAIMS = """
UPDATE turns SET status = 'RUNNING', attempt = 1, fence = nextval('fence_seq'), send_at = NULL,
       lease_until = now() + interval '1 minute', started_at = now()
"""


async def text(database: Database, on_busy: OnBusy, submission: Submission) -> OnBusyResult:
    return await submit_on_busy(database, replace(submission, on_busy=on_busy), resend_seconds=60.0)


async def rows(database: Database) -> list[dict[str, Any]]:
    return await database.fetch("SELECT * FROM turns ORDER BY seq", {})


async def inputs(database: Database) -> dict[UUID, list[Any]]:
    """The user's inputs by turn."""
    said = await database.fetch(
        "SELECT turn_id, json_agg(content ORDER BY ordinal) AS said FROM messages WHERE role = 'user' GROUP BY 1", {}
    )
    return {row["turn_id"]: row["said"] for row in said}


async def work(database: Database, settings: Settings, stop: asyncio.Event) -> dict[UUID, tuple[Any, ...]]:
    """A worker of one session until `stop`, then until nothing is left; returns the inputs of each attempt."""
    given: dict[UUID, tuple[Any, ...]] = {}
    terms = make_terms(settings)
    following: object = None
    while True:
        last_look = stop.is_set()
        if not isinstance(following, ClaimedTurn):
            [following] = await claim(database, terms, [make_claim()])
        if isinstance(following, ClaimedTurn):
            assert following.id not in given
            given[following.id] = following.inputs
            settled = await settle_one(database, settings, following, more=True)
            assert isinstance(settled, Settled)
            following = settled.next
        elif following is NoClaim.HEAD_LOCKED:
            continue
        elif last_look:
            return given
        else:
            await asyncio.wait({asyncio.ensure_future(stop.wait())}, timeout=0.002)


async def test_fifty_messages_of_all_policies_at_once_are_neither_lost_nor_doubled(
    database: Database, settings: Settings
) -> None:
    policies = [*OnBusy] * 13
    contents = [f"{policy}-{number}" for number, policy in enumerate(policies[:50])]
    stop = asyncio.Event()
    worker = asyncio.create_task(work(database, settings, stop))

    async def send(content: str, policy: OnBusy) -> Accepted | SessionBusyError:
        submission = make_submission(settings.queue, "s", content)
        if policy is not OnBusy.ENQUEUE:
            return (await text(database, policy, submission)).answer
        [answer] = await submit(database, [submission], resend_seconds=60.0)
        assert isinstance(answer, Accepted)
        return answer

    answers = await asyncio.gather(*(send(*one) for one in zip(contents, policies, strict=False)))
    stop.set()
    given = await worker

    found = await rows(database)
    said = await inputs(database)
    by_content = {content: turn_id for turn_id, contents in said.items() for content in contents}
    # Each input is in exactly one turn, the one in its client's response; a refused input is in none.
    assert Counter(content for contents in said.values() for content in contents).most_common(1)[0][1] == 1
    for content, answer in zip(contents, answers, strict=True):
        assert by_content.get(content) == (answer.turn_id if isinstance(answer, Accepted) else None)
    # Each turn ended, answered with all of its inputs or superseded before or while it ran.
    assert [row["seq"] for row in found] == list(range(1, len(found) + 1))
    assert {row["status"] for row in found} <= {"SUCCEEDED", "CANCELED"}
    for row in found:
        if row["id"] in given:
            assert list(given[row["id"]]) == said[row["id"]]
        if row["status"] == "CANCELED":
            assert row["cancel_reason"] == "superseded"
    answered = [row for row in found if row["status"] == "SUCCEEDED"]
    assert {row["id"] for row in answered} <= given.keys()
    assert [row["finished_at"] for row in answered] == sorted(row["finished_at"] for row in answered)
    # A superseded turn has a lower seq than an interrupting one, and a refusal names a turn of this session.
    interrupts = [row["seq"] for row in found if any(one.startswith("interrupt") for one in said[row["id"]])]
    assert all(row["seq"] < max(interrupts) for row in found if row["status"] == "CANCELED")
    refused = {answer.turn_id for answer in answers if isinstance(answer, SessionBusyError)}
    assert refused <= {row["id"] for row in found}


async def test_a_claim_during_a_merge_gets_its_input(settings: Settings, database: Database) -> None:
    [first] = await submit(database, [make_submission(settings.queue, content="one")], resend_seconds=60.0)
    assert isinstance(first, Accepted)
    session = {"tenant": "t", "session": "s"}
    async with database.connection() as merging, merging.transaction():
        await merging.execute(LOCK_SESSION, session)
        await merging.execute(LOCK_LAST, session)
        # A claim skips the locked row: it would miss the input.
        assert await claim(database, make_terms(settings), [make_claim()]) == [NoClaim.HEAD_LOCKED]
        await merging.execute(ADD_INPUT, {"id": first.turn_id, "content": '"two"'})

    assert (await claimed(database, settings, "s")).inputs == ("one", "two")


async def test_a_merge_during_a_claim_becomes_a_turn_of_its_own(settings: Settings, database: Database) -> None:
    [first] = await submit(database, [make_submission(settings.queue, content="one")], resend_seconds=60.0)
    assert isinstance(first, Accepted)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as claiming:
        await claiming.execute(CLAIMS)
        merging = asyncio.create_task(text(database, OnBusy.MERGE, make_submission(settings.queue, content="two")))
        await until_a_call_waits(database)
        await claiming.commit()

    answer = (await merging).answer
    assert isinstance(answer, Accepted)
    assert not answer.merged
    assert await inputs(database) == {first.turn_id: ["one"], answer.turn_id: ["two"]}


async def test_an_interrupt_during_a_claim_asks_the_claimed_turn_to_stop(
    settings: Settings, database: Database
) -> None:
    """The turn is PENDING when the interrupt first reads it, and RUNNING once the interrupt has locked it."""
    [first] = await submit(database, [make_submission(settings.queue, content="one")], resend_seconds=60.0)
    assert isinstance(first, Accepted)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as claiming:
        await claiming.execute(CLAIMS)
        interrupting = asyncio.create_task(text(database, OnBusy.INTERRUPT, make_submission(settings.queue)))
        await until_a_call_waits(database)
        await claiming.commit()

    assert (await interrupting).asked == (first.turn_id,)
    row = (await rows(database))[0]
    assert (row["status"], row["cancel_reason"]) == ("RUNNING", "superseded")


async def test_equal_requests_at_once_are_one(database: Database, settings: Settings) -> None:
    await submit(database, [make_submission(settings.queue, content="one")], resend_seconds=60.0)

    async def send(on_busy: OnBusy) -> Accepted | SessionBusyError:
        submission = make_submission(settings.queue, content="two", key=idempotency_key(on_busy))
        return (await text(database, on_busy, submission)).answer

    for on_busy in (OnBusy.REJECT, OnBusy.MERGE, OnBusy.INTERRUPT):
        answers = await asyncio.gather(*(send(on_busy) for _ in range(12)))
        assert len({answer.turn_id for answer in answers}) == 1
        assert sorted(answer.replayed for answer in answers) == [False, *[True] * 11]
    said = await inputs(database)
    assert sorted(said.values()) == [["one", "two"], ["two"]]


async def test_the_same_key_with_different_policies_at_once_makes_no_deadlock(
    database: Database, settings: Settings
) -> None:
    """Each call locks the key first, then the session."""

    async def send(number: int) -> object:
        key, session = idempotency_key(f"k{number % 2}"), f"s{number % 3}"
        submission = make_submission(settings.queue, session, "x", key=key)
        if number % 5 == 0:
            return await submit(database, [submission], resend_seconds=60.0)
        return await text(database, [OnBusy.REJECT, OnBusy.MERGE, OnBusy.INTERRUPT][number % 3], submission)

    answers = await asyncio.gather(*(send(number) for number in range(40)), return_exceptions=True)

    assert [answer for answer in answers if isinstance(answer, DatabaseUnavailableError)] == []


async def test_a_turn_whose_cancel_comes_with_its_submit_is_cancelled(database: Database, settings: Settings) -> None:
    async def both(number: int) -> UUID:
        submission = make_submission(settings.queue, f"s{number}", turn_id=uuid4(), chosen=True)
        later = submit(database, [submission], resend_seconds=60.0)
        sooner = cancel_ahead(database, "t", submission.turn_id, CancelReason.USER)
        pair = (later, sooner) if number % 2 else (sooner, later)
        await asyncio.gather(*pair)
        return submission.turn_id

    made = await asyncio.gather(*(both(number) for number in range(40)))

    found = {row["id"]: row["status"] for row in await rows(database)}
    assert found == dict.fromkeys(made, "CANCELED")


async def test_an_interrupt_whose_cancel_comes_with_it_is_cancelled(database: Database, settings: Settings) -> None:
    async def both(number: int) -> UUID:
        submission = make_submission(settings.queue, f"s{number}", turn_id=uuid4(), chosen=True)
        later = text(database, OnBusy.INTERRUPT, submission)
        sooner = cancel_ahead(database, "t", submission.turn_id, CancelReason.USER)
        pair = (later, sooner) if number % 2 else (sooner, later)
        await asyncio.gather(*pair)
        return submission.turn_id

    made = await asyncio.gather(*(both(number) for number in range(40)))

    found = {row["id"]: row["status"] for row in await rows(database)}
    assert found == dict.fromkeys(made, "CANCELED")


async def claimed(database: Database, settings: Settings, session_id: str) -> ClaimedTurn:
    while True:
        [found] = await claim(database, make_terms(settings), [make_claim(session_id)])
        if isinstance(found, ClaimedTurn):
            return found
        assert found is NoClaim.HEAD_LOCKED
