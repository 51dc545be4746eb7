"""The backlog, on both stores: what is due, what of it one more worker could begin with, and what is being answered."""

import pytest

from tests.statements.calls import FAILURE, QUEUE, claimed, settle_one, submit_one
from tests.support.fakes.store_stands import Stand
from turnstile.queries.backlog import Backlog, read_backlog

WAITED_SECONDS = 40.0


async def test_heads_are_ready_what_stands_behind_them_is_due_and_what_was_claimed_is_running(store: Stand) -> None:
    for session in ("a", "a", "b", "c"):
        await submit_one(store, session_id=session)
    await claimed(store, session_id="c")
    await store.pass_time(WAITED_SECONDS)

    [backlog, other] = await read_backlog(store.database, [QUEUE, "unused"])

    assert backlog == Backlog(QUEUE, due=3, ready=2, oldest_seconds=WAITED_SECONDS, running=1, truncated=False)
    assert other == Backlog("unused", due=0, ready=0, oldest_seconds=0.0, running=0, truncated=False)


async def test_halted_sessions_hide_nobody_however_long_they_have_waited(
    store: Stand, monkeypatch: pytest.MonkeyPatch
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


async def test_a_backlog_of_which_only_the_oldest_are_counted_says_so(
    store: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.backlog.MOST", 3)
    for session in ("long", "long", "long", "fresh"):
        await submit_one(store, session_id=session)

    [backlog] = await read_backlog(store.database, [QUEUE])

    assert (backlog.due, backlog.ready, backlog.truncated) == (3, 1, True)
