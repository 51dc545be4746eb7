"""An erasure ends with nothing left of the session, wherever it was kept; and nothing else is touched."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import LiteralString
from uuid import UUID

import pytest
import redis.asyncio

from tests.archive.archiving import age, archive, claim_head, end_turn, in_table, redrive, settle_as, start_child
from tests.erasure.erasing import finish, keys_with, make_due, plant_keys, request, tables_with
from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Connection, Database
from turnstile.config.settings import Settings
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.keys import RedisAwayError, SessionKeysInRedis
from turnstile.erasure.request import Erasure, read_erasure, request_erasure
from turnstile.errors import DatabaseUnavailableError
from turnstile.queries.session_messages import read_history
from turnstile.statements.claim import NoClaim, claim
from turnstile.statements.submit import submit
from turnstile.streaming.event import name_stream
from turnstile.turn.status import TurnStatus

CANARY = "canary-4c1f"
REMEMBER: LiteralString = """
INSERT INTO memory_items (tenant_id, session_id, kind, key, content, priority, tags, version, write_id, fence, created_at,
                          updated_at, expires_at)
VALUES ('t', 's', 'fact', 'k', to_json(%(text)s::text), 1, '{}', 1, gen_random_uuid(), 1, now(), now(), now() + interval '9 d')
"""


async def fill(database: Database, settings: Settings, keys: redis.asyncio.Redis) -> list[UUID]:
    """A session with the canary wherever a session keeps something: in both tables of turns, and in Redis."""
    ids = [
        await end_turn(database, settings, content=CANARY, status=TurnStatus.FAILED, webhook_url="https://c.example/h")
    ]
    await redrive(database, ids[0])
    await settle_as(database, settings, await claim_head(database, settings, "s"), TurnStatus.SUCCEEDED)
    await database.fetch("UPDATE webhooks SET due_at = NULL RETURNING 1", {})
    await age(database)
    await archive(database, days=20)
    ids += [await end_turn(database, settings, content=CANARY, metadata={"say": CANARY}) for _ in range(2)]
    await database.fetch(
        "INSERT INTO turn_values (turn_id, key, value, fence) VALUES (%(id)s, 'k', to_json(%(text)s::text), 1)",
        {"id": ids[-1], "text": CANARY},
    )
    await database.fetch(REMEMBER, {"text": CANARY})
    await plant_keys(keys, settings.redis_prefix, CANARY)
    for turn_id in ids:
        await keys.xadd(name_stream(settings.redis_prefix, "t", "s", turn_id), {"text": CANARY})
    return ids


async def test_nothing_of_a_session_is_left_in_any_table_or_key(
    database: Database, settings: Settings, eraser: Eraser, keys: redis.asyncio.Redis
) -> None:
    ids = await fill(database, settings, keys)
    assert len(await tables_with(database, CANARY)) >= 4
    assert len(await keys_with(keys, CANARY)) >= 8

    done = await finish(database, eraser, await request(database))

    assert done.turns == len(ids)
    assert (await tables_with(database, CANARY, but=set()), await keys_with(keys, CANARY)) == ([], [])
    for turn_id in ids:
        assert await tables_with(database, str(turn_id)) == []
    assert await database.fetch("SELECT session_id FROM sessions", {}) == []


async def test_the_audit_says_who_and_how_many_and_has_no_content(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    await end_turn(database, settings, content=CANARY)

    await finish(database, eraser, await request(database))

    [event] = await database.fetch("SELECT kind, actor, tenant_id, subject, counts FROM audit", {})
    assert event == {
        "kind": "session.erased", "actor": "somebody", "tenant_id": "t", "subject": "session s", "counts": {"turns": 1},
    }  # fmt: skip


async def test_other_sessions_and_tenants_stay_as_they_are(
    database: Database, settings: Settings, eraser: Eraser, keys: redis.asyncio.Redis
) -> None:
    await end_turn(database, settings)
    others = [await end_turn(database, settings, "s2"), await end_turn(database, settings, "s", tenant_id="u")]
    for session, tenant in (("s2", "t"), ("s", "u")):
        await plant_keys(keys, settings.redis_prefix, f"of-{tenant}-{session}", session, tenant)

    await finish(database, eraser, await request(database))

    assert await in_table(database) == sorted(others)
    assert (len(await keys_with(keys, "of-t-s2")), len(await keys_with(keys, "of-u-s"))) == (5, 5)


async def test_a_session_that_does_not_exist_is_not_erased(database: Database) -> None:
    assert await request_erasure(database, "t", "nowhere", "somebody") is None


async def test_a_second_request_finds_the_first_one(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)

    assert (await request(database)).id == (await request(database)).id


async def test_a_second_request_covers_what_was_submitted_since_the_first(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    await end_turn(database, settings, content="forget this")
    erasure = await request(database)
    await submit(database, [make_submission(settings.queue, content="and this")], resend_seconds=60)
    await request(database)
    last = make_submission(settings.queue, content="hello again")
    await submit(database, [last], resend_seconds=60)

    await finish(database, eraser, erasure)

    assert await in_table(database) == [last.turn_id]


async def test_a_second_request_at_the_end_of_the_first_is_not_lost(
    database: Database, settings: Settings, eraser: Eraser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await end_turn(database, settings, content="forget this")
    erasure, end = await request(database), eraser._end

    async def end_late(ending: Erasure) -> bool:
        monkeypatch.setattr(eraser, "_end", end)
        await submit(database, [make_submission(settings.queue, content="and this")], resend_seconds=60)
        await request(database)
        return await end(ending)

    monkeypatch.setattr(eraser, "_end", end_late)
    await finish(database, eraser, erasure)

    assert await in_table(database) == []


async def test_a_second_request_for_a_tenant_covers_sessions_that_are_being_erased(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    await submit(database, [make_submission(settings.queue, content="forget this")], resend_seconds=60)
    erasure = await request(database, None)
    for _ in ("the session is found", "its erasure begins"):
        await make_due(database)
        await eraser.step()
    await submit(database, [make_submission(settings.queue, content="and this")], resend_seconds=60)

    await request(database, None)
    await finish(database, eraser, erasure)

    assert await in_table(database) == []


async def test_a_step_under_way_does_not_skip_what_a_second_request_covers(
    database: Database, settings: Settings, eraser: Eraser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(database, [make_submission(settings.queue, content="forget this")], resend_seconds=60)
    go_on = eraser._erase_tenant
    await request(database, None)

    async def erase_late(erasure: Erasure) -> bool:
        await request(database, None)
        return await go_on(erasure)

    monkeypatch.setattr(eraser, "_erase_tenant", erase_late)
    await make_due(database)
    await eraser.step()

    [whole] = await database.fetch("SELECT reached FROM erasures WHERE session_id IS NULL", {})
    assert whole["reached"] is None


# --- turns that are open


async def test_waiting_turns_are_cancelled_and_a_running_one_is_asked_to_stop(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    waiting = [make_submission(settings.queue) for _ in range(2)]
    await submit(database, waiting, resend_seconds=60)
    running = await claim_head(database, settings, "s")

    requested = await request_erasure(database, "t", "s", "somebody")

    assert requested is not None
    erasure, canceled = requested
    assert (canceled.asked, canceled.canceled) == ((waiting[0].turn_id,), (waiting[1].turn_id,))
    for _ in range(3):
        await make_due(database)
        await eraser.step()
    assert await in_table(database) == [running.id]
    await settle_as(database, settings, running, TurnStatus.CANCELED)
    await finish(database, eraser, erasure)
    assert await in_table(database) == []


async def test_the_turn_of_a_dead_worker_goes_when_its_lease_is_over(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    await submit(database, [make_submission(settings.queue)], resend_seconds=60)
    await claim_head(database, settings, "s")
    erasure = await request(database)
    await database.fetch("UPDATE turns SET lease_until = now() - interval '6 s' RETURNING 1", {})

    await finish(database, eraser, erasure)

    assert await in_table(database) == []


async def test_a_turn_that_is_submitted_meanwhile_waits_and_begins_a_clean_session(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    await end_turn(database, settings, content="forget this")
    erasure = await request(database)
    new = make_submission(settings.queue, content="hello again")
    await submit(database, [new], resend_seconds=60)
    assert await claim(database, make_terms(settings), [make_claim()]) == [NoClaim.IDLE]

    await finish(database, eraser, erasure)

    assert await in_table(database) == [new.turn_id]
    turn = await claim_head(database, settings, "s")
    assert (turn.id, turn.inputs) == (new.turn_id, ("hello again",))
    assert await read_history(database, "t", "s", limit=10) == []


async def test_a_redrive_during_the_erasure_saves_no_turn(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    erasure = await request(database)
    assert await redrive(database, failed) == 1

    await finish(database, eraser, erasure)

    assert await in_table(database) == []


# --- children


async def test_the_sessions_of_children_are_erased_with_their_parent(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    parent, child = await start_child(database, settings)
    own = f"child:{child}"
    await database.fetch("UPDATE turns SET session_id = %(own)s WHERE session_id = 'child' RETURNING 1", {"own": own})
    await database.fetch(
        "UPDATE sessions SET session_id = %(own)s WHERE session_id = 'child' RETURNING 1", {"own": own}
    )
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)

    done = await finish(database, eraser, await request(database, "parent"))

    assert (await in_table(database), done.turns) == ([], 2)
    assert await database.fetch("SELECT 1 FROM sessions", {}) == []


async def test_a_child_stays_until_its_open_parent_has_seen_how_it_ended(
    database: Database, settings: Settings, eraser: Eraser
) -> None:
    parent, child = await start_child(database, settings)
    erasure = await request(database, "child")
    for _ in range(3):
        await make_due(database)
        await eraser.step()
    assert child in await in_table(database)

    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await finish(database, eraser, erasure)

    assert await in_table(database) == [parent.id]


# --- a tenant


async def test_all_sessions_of_a_tenant_are_erased_and_no_session_of_another(
    database: Database, settings: Settings, eraser: Eraser, keys: redis.asyncio.Redis
) -> None:
    for number in range(3):
        await end_turn(database, settings, f"s{number}", key=f"k{number}")
        await plant_keys(keys, settings.redis_prefix, CANARY, f"s{number}")
    other = await end_turn(database, settings, tenant_id="u")

    done = await finish(database, eraser, await request(database, None))

    assert (await in_table(database), done.turns) == ([other], 3)
    assert await keys_with(keys, CANARY) == []
    assert await database.fetch("SELECT 1 FROM submissions WHERE tenant_id = 't'", {}) == []
    assert await database.fetch("SELECT 1 FROM erasures WHERE part_of IS NOT NULL", {}) == []
    [event] = await database.fetch("SELECT kind, counts FROM audit", {})
    assert event == {"kind": "tenant.erased", "counts": {"turns": 3}}


# --- crashes


class Crashing(Database):
    """Fails at its nth call: before the call, or after its commit, whose answer is lost."""

    calls = itertools.count()
    fails_at = 0
    after = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        fails = next(self.calls) == self.fails_at
        if fails and not self.after:
            raise DatabaseUnavailableError("crashed before")
        async with super().connection() as connection:
            yield connection
        if fails:
            raise DatabaseUnavailableError("crashed after")


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after its commit"])
async def test_after_a_crash_at_any_call_the_erasure_ends_all_the_same(
    database: Database,
    settings: Settings,
    session_keys: SessionKeysInRedis,
    eraser: Eraser,
    keys: redis.asyncio.Redis,
    after: bool,
) -> None:
    async with Crashing(settings.database, "test", size=1) as crashing:
        crashing.after = after
        for place in range(12):
            await fill(database, settings, keys)
            crashing.calls, crashing.fails_at = itertools.count(), place
            erasure = await request(database)
            for _ in range(8):
                await make_due(database)
                try:
                    await Eraser(crashing, session_keys).step()
                except DatabaseUnavailableError:
                    break

            await finish(database, eraser, erasure)

            assert (await tables_with(database, CANARY, but=set()), await keys_with(keys, CANARY)) == ([], [])


async def test_while_redis_is_away_no_row_is_deleted(
    database: Database, settings: Settings, eraser: Eraser, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_id = await end_turn(database, settings)
    erasure = await request(database)

    async def away(*_: object) -> None:
        raise RedisAwayError("away")

    with monkeypatch.context() as patch:
        patch.setattr(SessionKeysInRedis, "delete", away)
        await make_due(database)
        with pytest.raises(RedisAwayError):
            await eraser.step()
    assert await in_table(database) == [turn_id]

    await finish(database, eraser, erasure)
    assert await in_table(database) == []


async def test_several_processes_at_once_end_it_once(
    database: Database, settings: Settings, session_keys: SessionKeysInRedis
) -> None:
    for number in range(6):
        await end_turn(database, settings, f"s{number}")
    erasure = await request(database, None)
    erasers = [Eraser(database, session_keys) for _ in range(3)]

    while (found := await read_erasure(database, erasure.id)) is not None and found.finished_at is None:
        await make_due(database)
        await asyncio.gather(*(one.step() for one in erasers))

    assert (await in_table(database), found and found.turns) == ([], 6)
    assert len(await database.fetch("SELECT 1 FROM audit", {})) == 1
