"""The backlog, on both stores: what is due, what of it one more worker could begin with, and what is being answered."""

from tests.contract.store.calls import QUEUE, claimed, submit_one
from tests.fakes.store_stands import Stand
from turns.backlog import Backlog, read_backlog

WAITED_SECONDS = 40.0


async def test_heads_are_ready_what_stands_behind_them_is_due_and_what_was_claimed_is_running(store: Stand) -> None:
    for session in ("a", "a", "b", "c"):
        await submit_one(store, session_id=session)
    await claimed(store, session_id="c")
    await store.pass_time(WAITED_SECONDS)

    [backlog, other] = await read_backlog(store.database, [QUEUE, "unused"])

    assert backlog == Backlog(QUEUE, due=3, ready=2, oldest_seconds=WAITED_SECONDS, running=1)
    assert other == Backlog("unused", due=0, ready=0, oldest_seconds=0.0, running=0)
