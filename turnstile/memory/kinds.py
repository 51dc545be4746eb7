"""The kinds of items, and how long each is kept. The only table of these times to live. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR

LOWEST_PRIORITY, NEUTRAL_PRIORITY, HIGHEST_PRIORITY = 1, 5, 10
LOW_PRIORITY = 3
"""Items up to this priority are dropped first when memory runs short."""


class Pressure(IntEnum):
    """How full the memory's Redis is."""

    NONE = 0
    HIGH = 1
    """From 80 % on: items of low priority are kept for their kind's shortest time."""
    CRITICAL = 2
    """From 90 % on: items of low priority are not kept, and existing ones are deleted."""


_FROM = {Pressure.CRITICAL: 0.90, Pressure.HIGH: 0.80}
_SLACK = 0.05
"""A level ends only when the used ratio has fallen this far below its threshold, so that it does not flap."""


def judge(before: Pressure, used_ratio: float | None) -> Pressure:
    """The level now. `used_ratio` is used memory divided by maxmemory; None if Redis has no limit."""
    for level, threshold in _FROM.items():
        if used_ratio is not None and used_ratio >= threshold - (_SLACK if level <= before else 0):
            return level
    return Pressure.NONE


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long something is kept, in seconds: the default, and the bounds."""

    usual: float
    shortest: float
    longest: float

    def chosen(self, wanted: float | None) -> float:
        """`wanted` within the bounds; the usual time if it is None. Raises ValueError if it is not a positive duration."""
        if wanted is None:
            return self.usual
        if not (math.isfinite(wanted) and wanted > 0):
            raise ValueError(f"ttl must be a positive number of seconds, got {wanted!r}")
        return min(self.longest, max(self.shortest, wanted))


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    lifetime: Lifetime
    durable: bool = False
    """In Postgres. Items of other kinds are in Redis, and may vanish at any moment."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("item", Lifetime(15 * MINUTE, MINUTE, 24 * HOUR)),
            Kind("result", Lifetime(5 * MINUTE, MINUTE, 30 * MINUTE)),
            Kind("state", Lifetime(30 * MINUTE, 5 * MINUTE, 12 * HOUR)),
            Kind("fact", Lifetime(7 * DAY, HOUR, 90 * DAY), durable=True),
        )
    }
)
"""`item`: data in use. `result`: what was expensive to compute. `state`: of external things. `fact`: what must not get lost."""

CONTEXT_LIFETIME = Lifetime(HOUR, 15 * MINUTE, 7 * DAY)
"""Lifetime of a context, from the last read or write of an item in it."""


def find_kind(name: str) -> Kind:
    """The kind with that name; raises ValueError."""
    try:
        return KINDS[name]
    except KeyError:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {name!r}") from None


def time_to_live(kind: Kind, wanted: float | None, priority: int, pressure: Pressure) -> float:
    """Seconds for which an item is kept; raises ValueError.

    If `wanted` is None, the usual time is doubled for the highest priority and halved for the lowest.
    """
    seconds = kind.lifetime.chosen(wanted)
    if pressure is not Pressure.NONE and _goes_first(kind, priority):
        return kind.lifetime.shortest
    return kind.lifetime.chosen(seconds * _weight(priority)) if wanted is None else seconds


def is_shed(kind: Kind, priority: int, pressure: Pressure) -> bool:
    """Whether such an item is not kept at all at this pressure."""
    return pressure is Pressure.CRITICAL and _goes_first(kind, priority)


def _goes_first(kind: Kind, priority: int) -> bool:
    # A durable item takes no room in Redis.
    return priority <= LOW_PRIORITY and not kind.durable


def _weight(priority: int) -> float:
    span = HIGHEST_PRIORITY - NEUTRAL_PRIORITY if priority > NEUTRAL_PRIORITY else NEUTRAL_PRIORITY - LOWEST_PRIORITY
    return float(2 ** ((priority - NEUTRAL_PRIORITY) / span))
