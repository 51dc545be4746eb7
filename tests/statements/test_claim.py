"""Claim: only the head is claimed, under a new fence, and the attempt is counted before it runs."""

from dataclasses import replace

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    LEASE_SECONDS,
    RETRY,
    claim_one,
    claimed,
    row_of,
    seconds_from_creation,
    settle_one,
    submit_one,
    terms,
)
from tests.statements.store import Store
from tests.support.factories import make_claim
from turnstile.queries.session_messages import read_version
from turnstile.statements.claim import NoClaim, claim
from turnstile.statements.settle import Settled
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion


async def test_the_head_is_claimed_and_its_attempt_is_counted(store: Store) -> None:
    first = await submit_one(store, "one", expires_in_seconds=900, metadata={"a": 1}, timeout_seconds=5, max_attempts=7)
    await submit_one(store, "two")
    await store.pass_time(2)

    turn = await claimed(store)

    assert (turn.id, turn.seq, turn.attempt, turn.inputs) == (first.turn_id, 1, 1, ("one",))
    assert (turn.metadata, turn.timeout_seconds, turn.max_attempts) == ({"a": 1}, 5.0, 7)
    assert (turn.queue_latency_seconds, turn.expires_in_seconds) == (2.0, 898.0)
    assert await seconds_from_creation(store, turn.id, "lease_until") == 2 + LEASE_SECONDS


async def test_a_claim_returns_its_messages_as_the_history_will_have_them(store: Store) -> None:
    await submit_one(store, {"text": "one"})

    turn = await claimed(store)

    rows = (await store.snapshot())["messages"]
    kept = [(row["turn_id"], row["ordinal"], row["role"], row["content"], row["created_at"]) for row in rows]
    said = [(one.turn_id, one.ordinal, one.role, one.content, one.created_at) for one in turn.messages]
    assert (said, turn.inputs) == (kept, ({"text": "one"},))
    assert {one.seq for one in turn.messages} == {turn.seq}


async def test_a_claim_returns_the_version_of_the_history_before_it(store: Store) -> None:
    for content in ("answered", "failed", "cancelled", "claimed"):
        await submit_one(store, content)
    first = await claimed(store)
    assert first.history_version == EMPTY_HISTORY == await read_version(store.database, "t", "s")
    await settle_one(store, first)
    answered = HistoryVersion(first.seq, first.claim_id)
    for settlement in (FAILURE, CANCELED):
        turn = await claimed(store)
        assert turn.history_version == answered
        await settle_one(store, turn, settlement)

    assert (await claimed(store)).history_version == answered == await read_version(store.database, "t", "s")
    assert await read_version(store.database, "t", "nowhere") is None


async def test_the_next_turn_of_a_settle_has_the_version_that_the_settle_made(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)
    first = await claimed(store)

    settled = await settle_one(store, first, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.history_version == HistoryVersion(first.seq, first.claim_id)


async def test_nothing_is_claimed_behind_a_running_head(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)
    await claimed(store)

    assert await claim_one(store, "worker-b") is NoClaim.RUNNING


async def test_nothing_is_claimed_behind_a_head_that_waits_for_its_retry(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await claim_one(store) is NoClaim.IDLE
    await store.pass_time(RETRY.after_seconds)
    assert (await claimed(store)).seq == 1


async def test_a_session_without_any_turn_is_unknown(store: Store) -> None:
    assert await claim_one(store) is NoClaim.UNKNOWN


async def test_a_session_without_an_open_turn_is_idle(store: Store) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store))

    assert await claim_one(store) is NoClaim.IDLE


async def test_a_due_head_of_another_queue_is_foreign(store: Store) -> None:
    await submit_one(store, queue="other")

    assert await claim_one(store) is NoClaim.FOREIGN
    assert isinstance(await claim_one(store, queue="other"), ClaimedTurn)
    assert await claim_one(store) is NoClaim.RUNNING


async def test_one_statement_claims_turns_of_several_sessions(store: Store) -> None:
    await submit_one(store, session_id="a")
    await submit_one(store, session_id="b")

    answers = await claim(store.database, terms(), [make_claim("b"), make_claim("nowhere"), make_claim("a")])

    assert [isinstance(answer, ClaimedTurn) and answer.session_id for answer in answers] == ["b", False, "a"]


async def test_of_two_requests_for_one_session_in_a_batch_one_gets_the_turn(store: Store) -> None:
    await submit_one(store)

    answers = await claim(store.database, terms(), [make_claim(), make_claim()])

    assert sum(isinstance(answer, ClaimedTurn) for answer in answers) == 1
    assert NoClaim.HEAD_LOCKED in answers


async def test_a_claim_whose_response_was_lost_is_found_by_its_id(store: Store) -> None:
    await submit_one(store)
    request = make_claim()
    first = await claim(store.database, terms(), [request])

    again = await claim(store.database, terms(), [request])

    assert isinstance(first[0], ClaimedTurn)
    assert again == first
    assert (await row_of(store, first[0].id))["attempt"] == 1


async def test_a_first_attempt_is_made_also_after_the_turn_expired(store: Store) -> None:
    await submit_one(store, expires_in_seconds=10)
    await store.pass_time(1000)

    turn = await claimed(store)

    assert turn.expires_in_seconds == -990.0


async def test_a_claim_of_one_turn_takes_no_other_and_says_that_one_is_due(store: Store) -> None:
    first = await submit_one(store)
    other = await submit_one(store)

    [not_the_head] = await claim(store.database, terms(), [replace(make_claim(), turn_id=other.turn_id)])
    [head] = await claim(store.database, terms(), [replace(make_claim(), turn_id=first.turn_id)])

    assert not_the_head is NoClaim.HEAD_LOCKED
    assert isinstance(head, ClaimedTurn)
