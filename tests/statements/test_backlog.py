"""The backlog: due turns, those that one more worker could claim now, and running turns."""

from datetime import timedelta

import pytest

from tests.statements.calls import FAILURE, QUEUE, RETRY, claimed, settle_one, submit_one
from tests.statements.store import START, Store
from turnstile.queries.backlog import Backlog, read_backlog

WAITED_SECONDS = 40.0
LATER = START + timedelta(seconds=WAITED_SECONDS)


async def test_heads_are_ready_turns_behind_them_are_due_and_claimed_turns_are_running(store: Store) -> None:
    for session in ("a", "a", "b", "c", "c"):
        await submit_one(store, session_id=session)
    await submit_one(store, session_id="d", queue="other")
    await claimed(store, session_id="c")
    await store.pass_time(WAITED_SECONDS)

    found = await read_backlog(store.database, [QUEUE, "other", "unused"])

    assert found == [
        Backlog("other", due=1, ready=1, oldest_seconds=WAITED_SECONDS, running=0, truncated=False),
        Backlog(QUEUE, due=4, ready=2, oldest_seconds=WAITED_SECONDS, running=1, truncated=False),
        Backlog("unused", due=0, ready=0, oldest_seconds=0.0, running=0, truncated=False),
    ]


async def test_a_turn_that_is_scheduled_or_waits_for_its_retry_counts_from_its_time(store: Store) -> None:
    await submit_one(store, session_id="scheduled", execute_at=LATER)
    await submit_one(store, session_id="retried")
    await settle_one(store, await claimed(store, session_id="retried"), RETRY)
    [before] = await read_backlog(store.database, [QUEUE])
    await store.pass_time(WAITED_SECONDS + 5)

    [after] = await read_backlog(store.database, [QUEUE])

    assert (before.due, before.ready) == (0, 0)
    assert (after.due, after.ready) == (2, 2)
    assert after.oldest_seconds == WAITED_SECONDS + 5 - RETRY.after_seconds


async def test_the_age_is_that_of_the_oldest_turn_that_could_be_claimed(store: Store) -> None:
    """A turn that waits behind its own session says nothing about a lack of workers."""
    for session in ("a", "a"):
        await submit_one(store, session_id=session)
    await claimed(store, session_id="a")
    await store.pass_time(1_000)
    await submit_one(store, session_id="b")
    await store.pass_time(WAITED_SECONDS)

    [backlog] = await read_backlog(store.database, [QUEUE])

    assert (backlog.due, backlog.ready, backlog.oldest_seconds) == (2, 1, WAITED_SECONDS)


async def test_halted_sessions_do_not_count_and_hide_no_other_session(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.backlog.MOST", 3)
    for _ in range(4):
        await submit_one(store, session_id="halted")
    await settle_one(store, await claimed(store, session_id="halted"), FAILURE, halt=True)
    await store.pass_time(1_000)
    for session in ("a", "b"):
        await submit_one(store, session_id=session)
    await store.pass_time(WAITED_SECONDS)

    [backlog] = await read_backlog(store.database, [QUEUE])

    assert backlog == Backlog(QUEUE, due=2, ready=2, oldest_seconds=WAITED_SECONDS, running=0, truncated=False)


async def test_a_backlog_of_which_only_the_oldest_were_read_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.backlog.MOST", 3)
    for session in ("long", "long", "long", "fresh"):
        await submit_one(store, session_id=session)

    [backlog] = await read_backlog(store.database, [QUEUE])

    assert (backlog.due, backlog.ready, backlog.truncated) == (3, 1, True)
