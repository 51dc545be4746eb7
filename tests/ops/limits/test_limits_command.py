"""`turnstile limits`: what is declared and used, and what an operator sets in its place."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.ops.conftest import Turnstile
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import FleetLimits, Pause, Places, Take, WaitingSession
from turnstile.limits.rules import Amounts, Want
from turnstile.process.redis_clients import connect_lock
from turnstile.statements.limit_overrides import read_fleet_state

DECLARED = json.dumps(
    [
        {"name": "models", "key": "metadata.model", "concurrency": 2},
        {"name": "tenants", "key": "tenant", "rate": 5},
    ]
)
LARGE = Want(limit="models", value="large", weight=1, amounts=Amounts(concurrency=2, rate=None, burst=None))


async def run(turnstile: Turnstile, *arguments: str, **more: str) -> Any:
    ran = await turnstile("limits", *arguments, "--json", **{"TURNSTILE_LIMITS": DECLARED, **more})
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


async def rows(turnstile: Turnstile, **more: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    return {(one["limit"], one["value"]): one for one in (await run(turnstile, "list", **more))["limits"]}


async def test_the_list_shows_what_runs_waits_and_is_paused(turnstile: Turnstile, settings: Settings) -> None:
    redis = connect_lock(settings)
    fleet = FleetLimits(redis, settings.redis_prefix, 600.0)
    steps = [Take(Places(uuid4().hex, (LARGE,)), WaitingSession("t", str(number))) for number in range(3)]
    await fleet.run([*steps, Pause(LARGE, 600.0)])
    await redis.close()

    found = await rows(turnstile)
    shown = await turnstile("limits", "list", TURNSTILE_LIMITS=DECLARED)

    assert set(found) == {("models", None), ("models", "large"), ("tenants", None)}
    large = found["models", "large"]
    assert (large["running"], large["concurrency"], large["waiting"]) == (2, 2, 1)
    assert 0 < large["paused_seconds"] <= 600
    assert (found["models", None]["running"], found["tenants", None]["rate"]) == (None, 5.0)
    assert "(each)" in shown.out


async def test_the_list_does_without_redis(turnstile: Turnstile) -> None:
    ran = await turnstile("limits", "list", TURNSTILE_LIMITS=DECLARED, REDIS_URL="redis://127.0.0.1:9/0")

    assert ran.code == 0
    assert "Redis does not answer" in ran.err
    assert "models" in ran.out


async def test_an_operator_sets_and_clears_a_limit_and_the_audit_has_both(
    turnstile: Turnstile, database: Database
) -> None:
    given = ["set", "models", "--value", "large", "--concurrency", "7", "--rate", "1.5", "--yes"]
    said = await run(turnstile, *given, "--reason", "slow provider")
    [override] = (await read_fleet_state(database)).overrides

    assert (said["limit"], said["value"], said["concurrency"], said["changed"]) == ("models", "large", 7, True)
    assert (override.value, override.amounts) == ("large", Amounts(concurrency=7, rate=1.5, burst=None))
    listed = (await rows(turnstile))["models", "large"]
    assert (listed["concurrency"], listed["rate"], listed["override"]["reason"]) == (7, 1.5, "slow provider")

    assert (await run(turnstile, "clear", "models", "--value", "large", "--yes"))["changed"]
    assert not (await run(turnstile, "clear", "models", "--value", "large", "--yes"))["changed"]
    assert (await read_fleet_state(database)).overrides == ()
    events = await database.fetch("SELECT kind, subject, reason FROM audit ORDER BY id", {})
    assert [(row["kind"], row["subject"], row["reason"]) for row in events] == [
        ("limit.set", "limit models of large", "slow provider"),
        ("limit.removed", "limit models of large", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["set", "modles", "--rate", "1", "--yes"], 3, "there is no limit 'modles'; the declared ones are models"),
        (["set", "models", "--yes"], 2, "nothing to set"),
        (["set", "models", "--concurrency", "0", "--yes"], 2, "concurrency"),
    ],
)
async def test_a_wrong_call_is_refused_in_one_line(
    turnstile: Turnstile, arguments: list[str], code: int, why: str
) -> None:
    ran = await turnstile("limits", *arguments, TURNSTILE_LIMITS=DECLARED)

    assert ran.code == code
    assert why in ran.err
    assert "Traceback" not in ran.err
