"""Redrives at the same moment as each other, as retries and as submits of turns and of children."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.support.claims import claim_sessions, fail_next, submit_turns
from tests.support.factories import make_submission
from tests.support.row_locks import until_a_call_waits
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import ParentSupersededError
from turnstile.ops.sessions.halted_session import LOCK_HALTED, RETRY, retry
from turnstile.sealing.contents import PLAIN
from turnstile.statements.revive import LOCK_FAILED, REVIVE, revive
from turnstile.statements.submit import SUBMIT, ParentClaim, Submission, submit, submit_parameters
from turnstile.turn.identifiers import start_trace


async def failed_pair(database: Database, settings: Settings, halts: str | None) -> dict[str, UUID]:
    """A turn and its compensation, both FAILED; one of them may halt its session."""
    await submit(database, [make_submission("turns", "s")], resend_seconds=60)
    turn = await fail_next(database, settings, "s", halt=halts == "turn", compensates=True)
    [row] = await database.fetch("SELECT session_id FROM turns WHERE kind = 'compensation'", {})
    undoing = await fail_next(database, settings, row["session_id"], halt=halts == "compensation", compensates=False)
    return {"turn": turn, "compensation": undoing}


async def begin(other: psycopg.AsyncConnection[Any], turn_id: UUID, *, halts: bool) -> None:
    """Does what a redrive or a retry does, up to its commit."""
    if halts:
        given = {"id": turn_id, "trace": "a" * 32, "span": "b" * 16, "expires": 60.0}
        await other.execute(LOCK_HALTED, given)
        done = await (await other.execute(RETRY, given)).fetchone()
    else:
        batch = {"ids": [turn_id], "generations": [1], "traces": ["a" * 32], "spans": ["b" * 16], "expires": [60.0]}
        await other.execute(LOCK_FAILED, batch)
        done = await (await other.execute(REVIVE, {**batch, "resend_after": 60.0, "dropped": True})).fetchone()
    assert done is not None


async def ask(database: Database, turn_id: UUID, *, halts: bool) -> bool:
    """A redrive or a retry from another connection; returns whether the turn went back to work."""
    trace = start_trace(1 << 64 | 1)
    if halts:
        return await retry(database, turn_id, trace, expires_in_seconds=60, requested_by="who") is not None
    return bool(await revive(database, [(turn_id, 1)], [trace], expires_in_seconds=[60.0], resend_seconds=60.0))


@pytest.mark.parametrize(
    "halts", [None, "turn", "compensation"], ids=["redrives", "turn retried", "compensation retried"]
)
@pytest.mark.parametrize("first", ["turn", "compensation"])
async def test_a_turn_and_its_compensation_do_not_both_go_back_to_work(
    database: Database, settings: Settings, first: str, halts: str | None
) -> None:
    pair = await failed_pair(database, settings, halts)
    second = next(name for name in pair if name != first)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as other:
        await begin(other, pair[first], halts=halts == first)
        asking = asyncio.create_task(ask(database, pair[second], halts=halts == second))
        await until_a_call_waits(database)
        await other.commit()

        assert await asking is False
    rows = await database.fetch("SELECT id, status FROM turns", {})
    assert {row["id"]: row["status"] for row in rows} == {pair[first]: "PENDING", pair[second]: "FAILED"}


async def lost_child(database: Database, settings: Settings, *, halts: bool) -> tuple[UUID, Submission]:
    """A child that FAILED, and the submit by which its parent starts the call again."""
    await submit(database, [make_submission("turns", "parent")], resend_seconds=60)
    [parent] = await claim_sessions(database, settings, "parent")
    call = ParentClaim(parent.id, parent.fence, "k")
    await submit(database, [make_submission("turns", "child", parent=call)], resend_seconds=60)
    lost = await fail_next(database, settings, "child", halt=halts, compensates=False)
    return lost, make_submission("turns", "again", parent=replace(call, replaces=lost))


@pytest.mark.parametrize("halts", [False, True], ids=["redrive", "retry"])
async def test_a_lost_child_does_not_go_back_to_work_while_its_call_starts_again(
    database: Database, settings: Settings, halts: bool
) -> None:
    lost, again = await lost_child(database, settings, halts=halts)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as other:
        await other.execute(SUBMIT, submit_parameters([again], 60.0, PLAIN))
        asking = asyncio.create_task(ask(database, lost, halts=halts))
        await until_a_call_waits(database)
        await other.commit()

        assert await asking is False


@pytest.mark.parametrize("halts", [False, True], ids=["redrive", "retry"])
async def test_a_call_does_not_start_again_while_its_lost_child_goes_back_to_work(
    database: Database, settings: Settings, halts: bool
) -> None:
    lost, again = await lost_child(database, settings, halts=halts)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as other:
        await begin(other, lost, halts=halts)
        asking = asyncio.create_task(submit(database, [again], resend_seconds=60))
        await until_a_call_waits(database)
        await other.commit()

        [answer] = await asking
    assert isinstance(answer, ParentSupersededError)


async def redrive_all(database: Database, *turns: UUID) -> int:
    traces = [start_trace(1 << 64 | number) for number, _ in enumerate(turns, 1)]
    failed = [(turn_id, 1) for turn_id in turns]
    return len(await revive(database, failed, traces, expires_in_seconds=[60.0] * len(turns), resend_seconds=60.0))


async def test_of_ten_redrives_at_once_one_revives_the_turn(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await fail_next(database, settings, "s", halt=False, compensates=False)

    answers = await asyncio.gather(*(redrive_all(database, failed) for _ in range(10)))

    assert sum(answers) == 1
    assert await database.fetch("SELECT generation, seq FROM turns", {}) == [{"generation": 2, "seq": 2}]


async def test_redrives_and_submits_of_one_session_at_once_leave_no_gap(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(5)))
    failed = [await fail_next(database, settings, "s", halt=False, compensates=False) for _ in range(5)]

    await asyncio.gather(
        *(redrive_all(database, turn_id) for turn_id in failed),
        *(submit_turns(database, settings, "new") for _ in range(10)),
    )

    rows = await database.fetch("SELECT seq FROM turns ORDER BY seq", {})
    assert [row["seq"] for row in rows] == list(range(6, 21))
