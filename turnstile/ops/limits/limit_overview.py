"""The declared limits with what is used of them now."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.backends.redis.operator_client import operator_client
from turnstile.config.settings import Settings
from turnstile.limits.read_use import LimitUse, find_values, read_use
from turnstile.limits.rules import LimitKey, LimitRules
from turnstile.ops.terminal.output import Columns, short_duration
from turnstile.statements.limit_overrides import FleetState, Override

LOOKED_AT = 1000
"""Most values of a limit whose use is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOverview:
    """A limit, or one value of its key."""

    limit: str
    key: str
    value: str | None
    """None: each value that has no row of its own."""
    concurrency: int | None
    rate: float | None
    burst: int | None
    running: int | None
    """Places in use. None: Redis was not asked, or the row is that of all values."""
    waiting: int | None
    paused_seconds: float | None
    override: Override | None


LIMITS: Columns = {
    "limit": "limit",
    "key": "key",
    "value": lambda one: "(each)" if one.value is None else one.value,
    "running": "running",
    "of": "concurrency",
    "rate/s": "rate",
    "burst": "burst",
    "waiting": "waiting",
    "paused for": lambda one: short_duration(one.paused_seconds) if one.paused_seconds else "",
    "set by": lambda one: one.override and one.override.set_by,
}


def describe(settings: Settings, state: FleetState, uses: Sequence[LimitUse]) -> list[LimitOverview]:
    """A row for each limit, and one for each value that is in use or that an operator has set; those most used first."""
    rules = LimitRules(settings.limits)
    rules.overrides = state.amounts
    overrides = {(one.limit_name, one.value): one for one in state.overrides}
    rows = []
    for limit in rules.declared:
        found = {one.value: one for one in uses if one.limit == limit.name}
        values = sorted(
            {*found, *(value for name, value in overrides if name == limit.name and value)},
            key=lambda value: (-_busy(found.get(value)), value),
        )
        for value in ["", *values]:
            amounts, use = rules.amounts(limit, value), found.get(value)
            rows.append(
                LimitOverview(
                    limit=limit.name,
                    key=limit.key,
                    value=value or None,
                    concurrency=amounts.concurrency,
                    rate=amounts.rate,
                    burst=amounts.burst,
                    running=None if use is None else use.used,
                    waiting=None if use is None else use.waiting,
                    paused_seconds=None if use is None else use.paused_seconds,
                    override=overrides.get((limit.name, value)),
                )
            )
    return rows


async def read_uses(settings: Settings) -> list[LimitUse]:
    """The values of each limit that were used lately. Raises RedisUnreachableError."""
    async with operator_client(settings.redis_url) as client:
        keys: list[LimitKey] = []
        for limit in settings.limits:
            values = await find_values(client, settings.redis_prefix, limit.name, LOOKED_AT)
            keys += [(limit.name, value) for value in values]
        uses = await read_use(client, settings.redis_prefix, keys)
    return [one for one in uses if _busy(one) or one.paused_seconds]


def _busy(use: LimitUse | None) -> int:
    return 0 if use is None else use.used + use.waiting
