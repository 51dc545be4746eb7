"""`turnstile why` names the limit that a due turn waits for."""

import json
from uuid import uuid4

from tests.ops.conftest import Turnstile
from tests.support.tampered_turns import make_pending
from tests.support.waiting_turns import make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import FleetLimits, Pause, Places, Take, WaitingSession
from turnstile.limits.rules import Amounts, Want
from turnstile.process.redis_clients import connect_lock

LIMITS = json.dumps([{"name": "tenants", "key": "tenant", "concurrency": 1}])
ONE = Want(limit="tenants", value="t", weight=1, amounts=Amounts(concurrency=1, rate=None, burst=None))


async def test_a_full_and_a_paused_limit_are_named_and_a_free_one_is_not(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn = await make_pending(database, settings)
    await make_worker(database, settings)

    async def reason() -> dict[str, object]:
        ran = await turnstile("why", str(turn), "--json", TURNSTILE_LIMITS=LIMITS)
        found: dict[str, object] = json.loads(ran.out)["reason"]
        return found

    free = await reason()
    redis = connect_lock(settings)
    fleet = FleetLimits(redis, settings.redis_prefix, 600.0)
    await fleet.run([Take(Places(uuid4().hex, (ONE,)), WaitingSession("t", "other"))])
    full = await reason()
    await fleet.run([Pause(ONE, 600.0)])
    paused = await reason()
    await redis.close()

    assert free["code"] == "not-begun"
    assert (full["code"], full["limit"], full["running"], full["paused_seconds"]) == ("limited", "tenants", 1, 0)
    assert (paused["code"], paused["running"]) == ("limited", 1)
    assert float(str(paused["paused_seconds"])) > 0
