"""The kinds of what a handler keeps, and how long each is kept (H5). The one table of these times to live. Pure."""

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
"""Up to here an item is the first to go when memory runs short."""


class Pressure(IntEnum):
    """How full the memory's Redis is (H6)."""

    NONE = 0
    HIGH = 1
    """From 80 % on: items of low priority are kept for their kind's shortest time."""
    CRITICAL = 2
    """From 90 % on: items of low priority are not kept, and those that are there go."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long something is kept, in seconds: unless it is said otherwise, and in what bounds."""

    usual: float
    shortest: float
    longest: float

    def chosen(self, wanted: float | None) -> float:
        """What is wanted, within the bounds; the usual time if nothing is. Raises ValueError for what is no duration."""
        if wanted is None:
            return self.usual
        if not (math.isfinite(wanted) and wanted > 0):
            raise ValueError(f"ttl must be a positive number of seconds, got {wanted!r}")
        return min(self.longest, max(self.shortest, wanted))


@dataclass(frozen=True, slots=True)
class Kind:
    """What an item is."""

    name: str
    lifetime: Lifetime
    durable: bool = False
    """Written to Postgres first. All others may vanish at any moment."""


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
"""`item`: what is being worked with. `result`: what was dear to compute. `state`: of things outside. `fact`: what must not be
forgotten."""

CONTEXT_LIFETIME = Lifetime(HOUR, 15 * MINUTE, 7 * DAY)
"""Of a context, from the last time that something in it was read or written (H3)."""


def find_kind(name: str) -> Kind:
    """The kind of that name; raises ValueError."""
    try:
        return KINDS[name]
    except KeyError:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {name!r}") from None


def time_to_live(kind: Kind, wanted: float | None, priority: int, pressure: Pressure) -> float:
    """Seconds to keep an item for; raises ValueError.

    Where nothing is wanted, the usual time is doubled for the highest priority and halved for the lowest.
    """
    seconds = kind.lifetime.chosen(wanted)
    if pressure is not Pressure.NONE and _goes_first(kind, priority):
        return kind.lifetime.shortest
    return kind.lifetime.chosen(seconds * _weight(priority)) if wanted is None else seconds


def is_shed(kind: Kind, priority: int, pressure: Pressure) -> bool:
    """Whether such an item is not kept at all now."""
    return pressure is Pressure.CRITICAL and _goes_first(kind, priority)


def _goes_first(kind: Kind, priority: int) -> bool:
    # A durable item would only come back from Postgres.
    return priority <= LOW_PRIORITY and not kind.durable


def _weight(priority: int) -> float:
    span = HIGHEST_PRIORITY - NEUTRAL_PRIORITY if priority > NEUTRAL_PRIORITY else NEUTRAL_PRIORITY - LOWEST_PRIORITY
    return float(2 ** ((priority - NEUTRAL_PRIORITY) / span))
