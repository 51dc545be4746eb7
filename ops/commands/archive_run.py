"""Archive: the ended turns of sessions at rest go from the table into its archive, in batches. The steps, without any
command line around them.

A page is read, then what is at rest in it is moved, in statements of about `batch` turns. What has been moved has been moved:
the run may be killed at any point, and the next one begins anew and finds less. No page and no move that takes too long ends
it, or each run would end at the same place and what comes behind it would never go.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from turnstile.archive.move import (
    BEGINNING,
    PAGE,
    ArchiveFilter,
    BrokenOffError,
    Page,
    Position,
    SessionAtRest,
    find_tenant_after,
    find_turn_after,
    move,
    read_page,
)
from turnstile.archive.partitions import name_month
from turnstile.backends.postgres.database import Database

LONGEST_PAUSE_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class ArchiveResult:
    """What a run did; for a survey, what it would do."""

    sessions: int = 0
    turns: int = 0
    moves: int = 0
    """Statements that moved something."""
    longest_move_seconds: float = 0.0
    busy: int = 0
    """Sessions in which somebody was at work when their turn came."""
    broken_off: int = 0
    """Sessions of moves that took too long, or met a lock, or that took too long to look at: nothing of them was moved."""
    kept: Counter[str] = field(default_factory=Counter)
    """Sessions with old turns that stay, by reason."""
    months: Counter[str] = field(default_factory=Counter)
    """Sessions by the tables that their turns belong in; one may be in several."""


Told = Callable[[ArchiveResult], None]


class Archive:
    """One run. `tenant_id`: of this tenant only."""

    def __init__(self, database: Database, wanted: ArchiveFilter, *, tenant_id: str | None = None) -> None:
        self._database = database
        self._wanted = wanted
        self._tenant_id = tenant_id
        self._page = PAGE
        """Turns that are asked for at once."""
        self.result = ArchiveResult()
        """So far; also where the run was broken off."""

    async def survey(self, tell: Told = lambda result: None) -> ArchiveResult:
        """Counts what would go; changes nothing."""
        async for session in self._walk(tell):
            self._count_months(session)
            self.result.sessions += 1
            self.result.turns += session.turns
        return self.result

    async def run(
        self,
        *,
        batch: int,
        pause_seconds: float | None = None,
        limit: int | None = None,
        tell: Told = lambda result: None,
    ) -> ArchiveResult:
        """Moves what is at rest, about `batch` turns in a statement and a session never in two, until `limit` turns have gone.

        `pause_seconds` lie between two statements; with None as long as the last one took, so that half of the time, and
        of the disk, is everybody else's. Raises DatabaseUnavailableError, `archive_months.MonthDetachedError`.
        """
        waiting: list[SessionAtRest] = []
        async for session in self._walk(tell):
            waiting.append(session)
            if sum(one.turns for one in waiting) >= batch:
                took = await self._move(waiting)
                waiting = []
                tell(self.result)
                if limit is not None and self.result.turns >= limit:
                    return self.result
                await asyncio.sleep(min(took, LONGEST_PAUSE_SECONDS) if pause_seconds is None else pause_seconds)
        if waiting:
            await self._move(waiting)
        return self.result

    async def _move(self, sessions: list[SessionAtRest]) -> float:
        began = time.monotonic()
        try:
            moved = await move(self._database, self._wanted, sessions)
        except BrokenOffError:
            # Not again and again, into the same trouble: the next run finds them.
            self.result.broken_off += len(sessions)
            return time.monotonic() - began
        took = time.monotonic() - began
        self.result.sessions += moved.sessions
        self.result.turns += moved.turns
        self.result.busy += len(sessions) - moved.sessions
        self.result.moves += moved.turns > 0
        self.result.longest_move_seconds = max(self.result.longest_move_seconds, took)
        for session in sessions:
            self._count_months(session)
        return took

    async def _walk(self, tell: Told) -> AsyncIterator[SessionAtRest]:
        tenant_id = self._tenant_id if self._tenant_id is not None else await find_tenant_after(self._database, "")
        while tenant_id is not None:
            position: Position | None = BEGINNING
            while position is not None:
                page = await self._read(tenant_id, position)
                self.result.kept.update(kept.value for kept in page.kept)
                for session in page.resting:
                    yield session
                tell(self.result)
                position = page.following
            tenant_id = None if self._tenant_id is not None else await find_tenant_after(self._database, tenant_id)

    async def _read(self, tenant_id: str, after: Position) -> Page:
        """The next page, as long as one that is read in time. A session that alone takes too long is stepped over."""
        while True:
            try:
                page = await read_page(self._database, self._wanted, tenant_id, after, self._page)
            except BrokenOffError:
                if self._page == 1:
                    following = await find_turn_after(self._database, self._wanted, tenant_id, after)
                    self.result.broken_off += following is not None
                    return Page(resting=(), kept=(), following=following)
                self._page //= 2
            else:
                self._page = min(2 * self._page, PAGE)
                return page

    def _count_months(self, session: SessionAtRest) -> None:
        self.result.months.update({name_month(month) for month in session.months})
