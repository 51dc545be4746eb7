"""Looks at the limits that waiting turns need, without changing them."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.operator_client import operator_client
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import WaitingSession
from turnstile.limits.read_use import LimitUse, read_use
from turnstile.limits.rules import LimitRules, Want
from turnstile.ops.why.wait_facts import SeenLimit, WaitFacts
from turnstile.statements.limit_overrides import read_fleet_state


async def look_at_limits(
    settings: Settings, database: Database, due: Mapping[UUID, WaitFacts]
) -> dict[UUID, WaitFacts]:
    """The facts with the limits of each head, as the settings and the operators have them.

    Raises RedisUnreachableError, DatabaseUnavailableError.
    """
    rules = LimitRules(settings.limits)
    rules.overrides = (await read_fleet_state(database)).amounts
    looked = {}
    async with operator_client(settings.redis_url) as client:
        for turn_id, facts in due.items():
            head = facts.head or facts.turn
            wants = rules.wants(head.tenant_id, head.queue, head.metadata)
            session = WaitingSession(head.tenant_id, head.session_id).name
            keys = [(want.limit, want.value) for want in wants]
            uses = await read_use(client, settings.redis_prefix, keys, session)
            limits = tuple(_seen(want, use) for want, use in zip(wants, uses, strict=True))
            looked[turn_id] = replace(facts, limits=limits)
    return looked


def _seen(want: Want, use: LimitUse) -> SeenLimit:
    return SeenLimit(
        limit=want.limit,
        value=want.value,
        places=want.places,
        concurrency=want.amounts.concurrency,
        running=use.used,
        waiting=use.waiting,
        paused_seconds=use.paused_seconds,
        slot_seconds=use.slot_seconds,
    )
