"""The nemesis: strikes with one kind of fault after the other, several at a time, seeded.

It deals the kinds like a deck of cards, shuffled again when it is used up, so that a run of any length uses all kinds
about equally often, and counts only those that hit something.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence

import psycopg
import redis.exceptions
from botocore.exceptions import BotoCoreError, ClientError

from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.kinds import handlers, postgres, processes, sqs
from tests.proof.chaos.kinds import redis as redis_kinds
from tests.proof.chaos.kinds.scene import Kind, NothingThereError, Scene
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.evidence import Fault

KINDS: tuple[Kind, ...] = (*processes.KINDS, *handlers.KINDS, *postgres.KINDS, *redis_kinds.KINDS, *sqs.KINDS)

UNREACHABLE = (psycopg.Error, redis.exceptions.RedisError, BotoCoreError, ClientError, OSError)


def choose(wanted: Sequence[str], *, shared: bool, fifo: bool = False) -> list[Kind]:
    """The kinds of that name or prefix (all if none is named); on a shared stack only those that harm no other run.

    Raises ValueError for a name that fits no kind.
    """
    if list(wanted) == ["none"]:
        return []
    for name in wanted:
        if not any(kind.name.startswith(name) for kind in KINDS):
            raise ValueError(
                f"no kind of fault is called {name!r}; there are: {', '.join(kind.name for kind in KINDS)}"
            )
    chosen = [kind for kind in KINDS if not wanted or kind.name.startswith(tuple(wanted))]
    return [kind for kind in chosen if (kind.shared or not shared) and (kind.fifo or not fifo)]


class Nemesis:
    """Strikes in `lanes` lanes until the scene heals."""

    def __init__(self, scene: Scene, kinds: Sequence[Kind], journal: Journal, pause_seconds: float) -> None:
        self._scene = scene
        self._kinds = kinds
        self._journal = journal
        self._pause = pause_seconds
        self._deck: list[Kind] = []
        self._at_work: set[str] = set()
        self.struck: Counter[str] = Counter()
        """How often each kind has hit something."""

    async def run(self, lanes: int) -> None:
        """Returns when the scene heals and the last fault is over."""
        if self._kinds:
            async with asyncio.TaskGroup() as group:
                for _ in range(lanes):
                    group.create_task(self._lane())

    @property
    def unused(self) -> list[str]:
        return [kind.name for kind in self._kinds if not self.struck[kind.name]]

    async def _lane(self) -> None:
        rng = self._scene.rng
        while not self._scene.healing.is_set():
            kind = self._draw(rng)
            if kind is not None:
                await self._strike(kind)
            await pause(rng.expovariate(1 / self._pause), self._scene.healing)

    def _draw(self, rng: random.Random) -> Kind | None:
        if not self._deck:
            self._deck = list(self._kinds)
            rng.shuffle(self._deck)
        for place, kind in enumerate(self._deck):
            if not kind.group or kind.group not in self._at_work:
                return self._deck.pop(place)
        return None

    async def _strike(self, kind: Kind) -> None:
        begun = now()
        self._at_work.add(kind.group)
        target: str | None = None
        try:
            # What a fault needs may itself be away through another fault: then it hit nothing.
            with contextlib.suppress(NothingThereError, *UNREACHABLE):
                target = await kind.strike(self._scene)
        finally:
            self._at_work.discard(kind.group)
        if target is not None:
            self.struck[kind.name] += 1
            self._journal.write(Fault(at=begun, until=now() + kind.lingers, kind=kind.name, target=target))
