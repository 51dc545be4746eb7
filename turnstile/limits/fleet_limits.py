"""The limits of the fleet in Redis: takes places and tokens for turns, frees places, keeps them alive, pauses a key.

One call for a batch of steps, and all keys have one hash tag (`limits.fleet_script`). While Redis is away nothing is asked: the
caller has another way (`worker.limiting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import script
from turnstile.limits.fleet_script import RUN_STEPS
from turnstile.limits.rules import Want


@dataclass(frozen=True, slots=True)
class Places:
    """What one claim has taken. Kept until it is given back, or not kept alive for a lease."""

    id: str
    """New for each claim that asks, also if it asks again: what it gives back may arrive later than what it takes anew."""
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A session that waits for a place, since a time in microseconds of Redis's clock."""

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


DONE = Done()


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
        written = ",".join([self._write(step, keys) for step in steps])
        command = script(RUN_STEPS, list(keys), f'{{"lease":{self._milliseconds},"steps":[{written}]}}')
        answered = await self._redis.run([command])
        if answered is None or isinstance(answered[0], Exception):
            return None
        [[numbers, called]] = answered
        answers = [
            DONE if not numbers[3 * place] else _read(step, *numbers[3 * place : 3 * place + 3])
            for place, step in enumerate(steps)
        ]
        pairs = zip(called[::2], called[1::2], strict=True)
        return Outcome(answers, [WaitingSession.read(name, since) for name, since in pairs])

    def key(self, want: Want) -> str:
        """The Redis key of a limit's value."""
        return limit_key(self._prefix, want.limit, want.value)

    def _write(self, step: Step, keys: dict[str, int]) -> str:
        # By hand, because every turn is written twice. Ids have no character that JSON would escape, and values are only in keys.
        match step:
            case Take(places, session):
                since = f',"since":{session.since}' if session.since else ""
                return f'{{"name":"take","session":"{session.name}"{since},"wants":{self._wants(places, keys)}}}'
            case GiveBack(places, unused):
                return f'{{"name":"give_back","unused":{_word(unused)},"wants":{self._wants(places, keys)}}}'
            case Keep(places, anew):
                return f'{{"name":"keep","anew":{_word(anew)},"wants":{self._wants(places, keys)}}}'
            case Pause(want, seconds):
                paused = self._wants(Places("", (want,)), keys)
                return f'{{"name":"pause","pause":{int(seconds * 1000)},"wants":{paused}}}'
            case _:
                assert_never(step)

    def _wants(self, places: Places, keys: dict[str, int]) -> str:
        wants = []
        for want in places.wants:
            number = keys.setdefault(self.key(want), len(keys) + 1)
            wants.append(f'{{"key":{number},"member":"{want.places}:{places.id}",{want.written}}}')
        return f"[{','.join(wants)}]"


def _word(yes: bool) -> str:
    return "true" if yes else "false"


def _read(step: Step, by: int, milliseconds: int, exact: int) -> Answer:
    match step:
        case Take(places):
            return Refused(places.wants[by - 1], milliseconds / 1000, bool(exact))
        case Keep():
            return Gone()
        case GiveBack() | Pause():
            return DONE
        case _:
            assert_never(step)
