"""`turnstile erase`: what it asks, prints and leaves, and what it says about what is left."""

import json

import redis.asyncio

from tests.archive.archiving import end_turn, in_table
from tests.erasure.erasing import plant_keys, request
from tests.ops.conftest import Turnstile
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.erasure.rows import FIND_SESSIONS
from turnstile.statements.submit import submit


async def test_it_erases_a_session_and_says_that_nothing_is_left(
    turnstile: Turnstile, database: Database, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    await end_turn(database, settings)
    await submit(database, [make_submission(settings.queue)], resend_seconds=60)
    kept = await end_turn(database, settings, "another")
    await plant_keys(keys, settings.redis_prefix, "said")

    ran = await turnstile("erase", "--tenant", "t", "--session", "s", "--yes", "--json")

    assert (ran.code, json.loads(ran.out)) == (0, {"tenant": "t", "session": "s", "turns": 2, "left": {}})
    assert await in_table(database) == [kept]


async def test_it_erases_a_tenant(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    for session in ("a", "b"):
        await end_turn(database, settings, session)

    ran = await turnstile("erase", "--tenant", "t", "--yes")

    assert (ran.code, ran.out) == (0, "tenant t: 2 turns erased; nothing is left\n")


async def test_it_ends_with_a_session_that_is_erased_with_its_tenant(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await end_turn(database, settings)
    of_tenant = await request(database, None)
    await database.fetch(FIND_SESSIONS, of_tenant.terms)
    assert [row["session_id"] for row in await database.fetch("SELECT session_id FROM erasures", {})] == [None, "s"]

    ran = await turnstile("erase", "--tenant", "t", "--session", "s", "--yes", "--json")

    assert (ran.code, json.loads(ran.out)["left"]) == (1, {"erasures_under_way": 1})
    assert await in_table(database) == []


async def test_without_a_terminal_it_needs_yes(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)

    ran = await turnstile("erase", "--tenant", "t", "--session", "s")

    assert (ran.code, "This cannot be undone" in ran.err) == (2, True)
    assert await in_table(database) == [turn_id]


async def test_a_session_that_the_tenant_does_not_have_is_not_found(turnstile: Turnstile) -> None:
    ran = await turnstile("erase", "--tenant", "t", "--session", "nowhere", "--yes")

    assert (ran.code, ran.err) == (3, "turnstile: no such session of this tenant\n")


async def test_verify_names_what_is_left_and_changes_nothing(
    turnstile: Turnstile, database: Database, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    await end_turn(database, settings)
    await plant_keys(keys, settings.redis_prefix, "said")

    one = await turnstile("erase", "--tenant", "t", "--session", "s", "--verify", "--json")
    all_of_it = await turnstile("erase", "--tenant", "t", "--verify")

    assert (one.code, json.loads(one.out)["left"]) == (1, {"turns": 1, "sessions": 1, "redis": 5})
    assert (all_of_it.code, all_of_it.out) == (1, "tenant t: left: 1 in turns, 1 in sessions, 5 in redis\n")
    assert len(await in_table(database)) == 1
