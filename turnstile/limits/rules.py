"""What a turn takes of each limit. Pure."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnstile.config.limit_settings import MOST, LimitSettings

MOST_VALUE_CHARACTERS = 128
"""A longer value of a key is replaced by its digest."""
MOST_REMEMBERED = 10_000
"""Of so many keys a worker remembers what a turn takes."""


LimitKey = tuple[str, str]
"""The name of a limit and a value of its key. An empty value: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How much there is of one key. None: no limit."""

    concurrency: int | None
    rate: float | None
    burst: int | None

    def instead_of(self, others: "Amounts") -> "Amounts":
        """These, and the others where these say nothing."""
        return Amounts(
            concurrency=others.concurrency if self.concurrency is None else self.concurrency,
            rate=others.rate if self.rate is None else self.rate,
            burst=others.burst if self.burst is None else self.burst,
        )

    @property
    def tokens(self) -> float:
        """The most tokens that are saved up."""
        return max(1.0, self.rate or 0.0) if self.burst is None else self.burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What one turn takes of one limit: `weight` places and tokens, or all there are if that is fewer."""

    limit: str
    value: str
    weight: int
    amounts: Amounts
    places: int = field(init=False)
    """0: the limit has no places."""
    tokens: int = field(init=False)
    """0: the limit has no rate."""
    written: str = field(init=False, repr=False, compare=False)
    """Its numbers as members of a JSON object, for the script. Written once, because every turn of the key has them."""

    def __post_init__(self) -> None:
        amounts = self.amounts
        places = 0 if amounts.concurrency is None else min(self.weight, amounts.concurrency)
        tokens = 0 if amounts.rate is None else min(self.weight, math.floor(amounts.tokens))
        numbers = {
            "places": places,
            "most": amounts.concurrency or 0,
            "tokens": tokens,
            "rate": amounts.rate or 0,
            "burst": amounts.tokens,
        }
        written = ",".join(f'"{name}":{number}' for name, number in numbers.items())
        for name, value in (("places", places), ("tokens", tokens), ("written", written)):
            object.__setattr__(self, name, value)


class LimitRules:
    """The limits of a deployment, as declared, or as operators have set them since (`overrides`)."""

    def __init__(self, declared: Sequence[LimitSettings]) -> None:
        self.declared = tuple(declared)
        self.needs_metadata = any(limit.needs_metadata for limit in declared)
        """Whether a turn's metadata must be known to say what it takes."""
        self._overrides: Mapping[LimitKey, Amounts] = {}
        self._wants: dict[tuple[str, str, int], Want] = {}
        """Made before, because most turns have the keys of others."""

    @property
    def overrides(self) -> Mapping[LimitKey, Amounts]:
        return self._overrides

    @overrides.setter
    def overrides(self, found: Mapping[LimitKey, Amounts]) -> None:
        if found != self._overrides:
            self._overrides = found
            self._wants.clear()

    def amounts(self, limit: LimitSettings, value: str) -> Amounts:
        """How much there is of the key's `value`."""
        amounts = Amounts(concurrency=limit.concurrency, rate=limit.rate, burst=limit.burst)
        # Those of the value itself count most.
        for name in ("", value):
            if (override := self._overrides.get((limit.name, name))) is not None:
                amounts = override.instead_of(amounts)
        return amounts

    def wants(self, tenant_id: str, queue: str, metadata: Mapping[str, Any]) -> tuple[Want, ...]:
        """What a turn takes, in the order of the declarations."""
        found = []
        for limit in self.declared:
            value = value_of(limit.key, tenant_id, queue, metadata)
            if value is not None:
                found.append(self._want(limit, value, weight_of(limit.weight, metadata)))
        return tuple(found)

    def _want(self, limit: LimitSettings, value: str, weight: int) -> Want:
        key = (limit.name, value, weight)
        if (want := self._wants.get(key)) is None:
            if len(self._wants) >= MOST_REMEMBERED:
                self._wants.clear()
            amounts = self.amounts(limit, value)
            want = self._wants[key] = Want(limit=limit.name, value=value, weight=weight, amounts=amounts)
        return want


def value_of(key: str, tenant_id: str, queue: str, metadata: Mapping[str, Any]) -> str | None:
    """The value of a limit's key for a turn; None: the turn has none."""
    match key:
        case "tenant":
            return tenant_id
        case "queue":
            return queue
        case _:
            return _as_text(metadata.get(key.removeprefix("metadata.")))


def weight_of(weight: int | str, metadata: Mapping[str, Any]) -> int:
    """How many places and tokens a turn takes."""
    if isinstance(weight, int):
        return weight
    given = metadata.get(weight.removeprefix("metadata."))
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 1:
        return 1
    return int(min(given, MOST))


def _as_text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            text = str(value)
            if len(text) <= MOST_VALUE_CHARACTERS:
                return text
            return f"sha256-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:32]}"
        case _:
            return None
