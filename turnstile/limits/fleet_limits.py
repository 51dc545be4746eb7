"""The limits of the fleet in Redis: takes places and tokens for turns, frees places, keeps them alive, pauses a key.

One call for a batch of steps, and all keys have one hash tag (`limits.fleet_script`). While Redis is away nothing is asked: the
caller has another way (`worker.limiting`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never
from uuid import UUID

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import script
from turnstile.limits.fleet_script import RUN_STEPS
from turnstile.limits.rules import Want


@dataclass(frozen=True, slots=True)
class Places:
    """What one claim has taken. Kept until it is given back, or not kept alive for a lease."""

    claim_id: UUID
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A session that waits for a place, since a time in milliseconds of Redis's clock."""

    tenant_id: str
    session_id: str
    since: int = 0

    @property
    def name(self) -> str:
        # No id contains a slash.
        return f"{self.tenant_id}/{self.session_id}"

    @classmethod
    def read(cls, name: str, since: str) -> "WaitingSession":
        tenant_id, _, session_id = name.partition("/")
        return cls(tenant_id, session_id, int(float(since)))


@dataclass(frozen=True, slots=True)
class Take:
    places: Places
    session: WaitingSession
    """With `since`, if it was called: it has waited since then, and places are kept for it."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    places: Places
    unused: bool = False
    """No turn began: the tokens are given back, too."""


@dataclass(frozen=True, slots=True)
class Keep:
    places: Places
    anew: bool = False
    """Take them again if they are gone. Otherwise only report that."""


@dataclass(frozen=True, slots=True)
class Pause:
    want: Want
    seconds: float


Step = Take | GiveBack | Keep | Pause


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was taken, because of `want`, the one with the longest wait."""

    want: Want
    seconds: float
    """After how long the session should ask again."""
    exact: bool
    """It has tokens for that time."""


@dataclass(frozen=True, slots=True)
class Done:
    """Taken, given back, kept or paused."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Some of the places were not there any more."""


Answer = Refused | Done | Gone


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer for each step, and the sessions for which places have come free: begin them now."""

    answers: list[Answer]
    called: list[WaitingSession] = field(default_factory=list)


def limit_key(prefix: str, limit: str, value: str) -> str:
    """The Redis key of a value of a limit."""
    return f"{prefix}limit:{{limits}}:{limit}:{value}"


class FleetLimits:
    """A client of the limits in one Redis, for one event loop."""

    def __init__(self, redis: GuardedRedis, prefix: str, lease_seconds: float) -> None:
        self._redis = redis
        self._prefix = prefix
        self._milliseconds = int(lease_seconds * 1000)

    async def run(self, steps: Sequence[Step]) -> Outcome | None:
        """Runs the steps in their order, in one call. None: Redis is away, or did not respond and may have run them."""
        keys: dict[str, int] = {}
        asked = {"lease": self._milliseconds, "steps": [self._write(step, keys) for step in steps]}
        command = script(RUN_STEPS, list(keys), json.dumps(asked, separators=(",", ":")))
        answered = await self._redis.run([command])
        if answered is None or isinstance(answered[0], Exception):
            return None
        [[numbers, called]] = answered
        answers = [_read(step, numbers[3 * place : 3 * place + 3]) for place, step in enumerate(steps)]
        pairs = zip(called[::2], called[1::2], strict=True)
        return Outcome(answers, [WaitingSession.read(name, since) for name, since in pairs])

    def key(self, want: Want) -> str:
        """The Redis key of a limit's value."""
        return limit_key(self._prefix, want.limit, want.value)

    def _write(self, step: Step, keys: dict[str, int]) -> dict[str, Any]:
        match step:
            case Take(places, session):
                written = self._wants(places, keys) | {"name": "take", "session": session.name}
                return written | {"since": session.since} if session.since else written
            case GiveBack(places, unused):
                return self._wants(places, keys) | {"name": "give_back", "unused": unused}
            case Keep(places, anew):
                return self._wants(places, keys) | {"name": "keep", "anew": anew}
            case Pause(want, seconds):
                paused = self._wants(Places(UUID(int=0), (want,)), keys)
                return paused | {"name": "pause", "pause": int(seconds * 1000)}
            case _:
                assert_never(step)

    def _wants(self, places: Places, keys: dict[str, int]) -> dict[str, Any]:
        return {
            "wants": [
                {
                    "key": keys.setdefault(self.key(want), len(keys) + 1),
                    "member": f"{want.places}:{places.claim_id}",
                    "places": want.places,
                    "most": want.amounts.concurrency or 0,
                    "tokens": want.tokens,
                    "rate": want.amounts.rate or 0,
                    "burst": want.amounts.tokens,
                }
                for want in places.wants
            ]
        }


def _read(step: Step, numbers: Sequence[int]) -> Answer:
    by, milliseconds, exact = (int(number) for number in numbers)
    match step:
        case Take(places) if by:
            return Refused(places.wants[by - 1], milliseconds / 1000, bool(exact))
        case Keep() if by:
            return Gone()
        case Take() | GiveBack() | Keep() | Pause():
            return Done()
        case _:
            assert_never(step)
