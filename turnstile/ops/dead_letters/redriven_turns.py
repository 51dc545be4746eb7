"""The turns that a redrive has put back, and how they have ended so far. Each row is found by its key."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.ops.dead_letters.stop_rule import CANARY_WAIT_SECONDS, WINDOW, Ends, GoOn, Stop, Wait, judge_canary
from turnstile.turn.status import TurnStatus

LOOK_SECONDS = 1.0
"""The shortest time between two looks."""

MOST = 10_000
"""Turns of one look: of those that have not ended, the ones that were put back first."""


READ_ENDS: LiteralString = f"""
SELECT t.id, CASE WHEN t.generation > w.generation THEN 'FAILED' ELSE t.status END AS status,
       CASE WHEN t.generation = w.generation THEN t.error_class END AS error_class
  FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) w (id, generation) JOIN turns t ON {by_key("t.id", "w.id")}
 WHERE t.generation > w.generation OR {off_index("t.status")} NOT IN ('PENDING', 'RUNNING')
 ORDER BY t.finished_at, t.id
"""
"""A turn of a later generation was redriven once more: it must have failed in between."""


@dataclass(frozen=True, slots=True)
class RedrivenEnd:
    """The end of a turn in the generation that a redrive began."""

    id: UUID
    status: TurnStatus
    error_class: str | None
    """FAILED only; None if the turn was redriven once more since."""


async def read_ends(database: Database, generations: Mapping[UUID, int]) -> list[RedrivenEnd]:
    """Those of the turns that have ended in (or since) these generations, in the order of their ends."""
    asked = {"ids": list(generations), "generations": list(generations.values())}
    rows = await database.fetch(READ_ENDS, asked)
    return [RedrivenEnd(row["id"], TurnStatus(row["status"]), row["error_class"]) for row in rows]


class RedrivenTurns:
    """Watches the turns of one redrive. `look` reads; the rest is counting."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[UUID, int] = {}
        self._lately: deque[RedrivenEnd] = deque(maxlen=WINDOW)
        self._counts: Counter[TurnStatus] = Counter()
        self._failed: Counter[str] = Counter()
        self._looked_at = -LOOK_SECONDS

    def add(self, put_back: Iterable[tuple[UUID, int]]) -> None:
        """Watches these turns, too: ids, and the generations that the redrive has begun."""
        self._open.update(put_back)

    async def look(self) -> None:
        """Reads which turns have ended, if the last look was long enough ago. Raises DatabaseUnavailableError."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS or not self._open:
            return
        ended = await read_ends(self._database, dict(islice(self._open.items(), MOST)))
        self._looked_at = time.monotonic()
        for end in ended:
            del self._open[end.id]
            self._counts[end.status] += 1
            if end.status is TurnStatus.FAILED:
                self._failed[_class(end)] += 1
        self._lately.extend(ended)

    @property
    def ends(self) -> Ends:
        """How all the turns have ended so far."""
        return Ends(
            succeeded=self._counts[TurnStatus.SUCCEEDED],
            failed=self._failed.copy(),
            canceled=self._counts[TurnStatus.CANCELED],
            open=len(self._open),
        )

    @property
    def open_ids(self) -> list[UUID]:
        """Those that have not ended, in the order in which they were put back."""
        return list(self._open)

    @property
    def lately(self) -> Ends:
        """How the `WINDOW` turns that ended last have ended."""
        counts = Counter(end.status for end in self._lately)
        return Ends(
            succeeded=counts[TurnStatus.SUCCEEDED],
            failed=Counter(_class(end) for end in self._lately if end.status is TurnStatus.FAILED),
            canceled=counts[TurnStatus.CANCELED],
        )

    async def wait_for_canary(self, report: Callable[[Ends], None]) -> GoOn | Stop:
        """Waits until the turns so far have decided whether the redrive goes on, at most `CANARY_WAIT_SECONDS`.

        Calls `report` after each look that decides nothing.
        """
        deadline = time.monotonic() + CANARY_WAIT_SECONDS
        while True:
            await self.look()
            verdict = judge_canary(self.ends, time_is_up=time.monotonic() >= deadline)
            if not isinstance(verdict, Wait):
                return verdict
            report(self.ends)
            await asyncio.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))


def _class(end: RedrivenEnd) -> str:
    return end.error_class or "unknown"
