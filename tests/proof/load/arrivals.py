"""When turns arrive, and what each asks for. Pure: a seed makes the same load again."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.proof.chaos.scaled_settings import TENANTS

TURNS_A_SESSION = 20
SPOKEN = 0.25
"""The share of the turns that are answered word by word. The others are answered in one piece, after a while."""
HISTORIES = 0.3
"""The share of the turns whose handler asks what was said before. The checker compares it with what was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many turns a second are due: an even rate, and in the middle of each period a burst. Times in seconds."""

    per_second: float
    burst_every: float = 60.0
    burst_seconds: float = 5.0
    burst_factor: float = 2.0

    def is_burst(self, second: float) -> bool:
        since_middle = second % self.burst_every - self.burst_every / 2
        return 0 <= since_middle < self.burst_seconds

    def rate(self, second: float) -> float:
        """Turns a second that are due at this second of the run."""
        return self.per_second * (self.burst_factor if self.is_burst(second) else 1.0)


def arrivals(pace: Pace, seconds: float, rng: random.Random) -> Iterator[float]:
    """The seconds at which turns are due: independent of one another and of how the system fares (a Poisson process).

    Drawn at the highest rate and thinned, which is exact however the rate changes.
    """
    highest = pace.per_second * max(1.0, pace.burst_factor)
    second = rng.expovariate(highest)
    while second < seconds:
        if rng.random() * highest < pace.rate(second):
            yield second
        second += rng.expovariate(highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    tenant: str
    session: str
    key: str
    """The Idempotency-Key."""
    content: dict[str, Any]


@dataclass(slots=True)
class Talk:
    """Many sessions at a time, each of which gets TURNS_A_SESSION turns and is left for a new one.

    `name` keeps the keys and sessions of one phase apart from another's.
    """

    name: str
    rng: random.Random
    sessions: int
    handler_seconds: float
    """What an answer takes on average, from half to three halves of it."""
    tenants: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(TENANTS, 1.0))
    """The tenants of the sessions, and how often each is chosen."""
    _open: list[tuple[str, str, int]] = field(init=False)
    _made: int = 0
    _asked: int = 0

    def __post_init__(self) -> None:
        self._open = [self._new_session() for _ in range(self.sessions)]

    def next(self) -> Ask:
        place = self.rng.randrange(self.sessions)
        tenant, session, turns = self._open[place]
        self._open[place] = (tenant, session, turns + 1) if turns + 1 < TURNS_A_SESSION else self._new_session()
        self._asked += 1
        return Ask(tenant=tenant, session=session, key=f"{self.name}-{self._asked}", content=self._content())

    def _new_session(self) -> tuple[str, str, int]:
        self._made += 1
        [tenant] = self.rng.choices(list(self.tenants), list(self.tenants.values()))
        return tenant, f"{self.name}-s{self._made}", 0

    def _content(self) -> dict[str, Any]:
        seconds = self.handler_seconds * self.rng.uniform(0.5, 1.5)
        asks = {"history": self.rng.random() < HISTORIES, "n": f"{self.name}-{self._asked}"}
        if self.rng.random() < SPOKEN:
            words = 8
            return {"do": "speak", "words": words, "pause": round(seconds / words, 4), **asks}
        return {"do": "sleep", "seconds": round(seconds, 4), **asks}
