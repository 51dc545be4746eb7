"""Reseal: every stored content that is plain, or under another key, is opened and sealed under the present key.

It goes through each table, in the order of its key. It keeps no state: what is under the present key already is passed over,
so a run that was stopped is simply begun again. A content that changes meanwhile is left as it is: the next run looks at it.

Messages come once more at the end. The input of a compensation is a copy that Postgres makes, as sealed as what it copies: one
that was made meanwhile may have contents of tables that had not been reached yet.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.errors import ContentsUnreadableError
from turnstile.ops.reseal.shelves import MESSAGES, SHELVES, Shelf

LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Resealed:
    """Counts of rows."""

    read: int = 0
    sealed: int = 0
    """Brought under the present key; in a dry run, those that would be."""
    skipped: int = 0
    """Changed or locked by another transaction meanwhile: the next run looks again."""
    unreadable: int = 0
    """With a content whose key is missing, or whose seal is broken. Left as they are."""
    reasons: frozenset[str] = frozenset()
    """Why they are unreadable."""

    def __add__(self, other: "Resealed") -> "Resealed":
        return Resealed(
            self.read + other.read,
            self.sealed + other.sealed,
            self.skipped + other.skipped,
            self.unreadable + other.unreadable,
            self.reasons | other.reasons,
        )


async def reseal_all(
    database: Database, *, pause_seconds: float | None = None, dry_run: bool = False
) -> AsyncIterator[Resealed]:
    """Yields the counts of each page. Between two it sleeps for `pause_seconds`, by default for as long as the last one took.

    `database.contents` must seal. Raises DatabaseUnavailableError.
    """
    # A dry run seals nothing, so the last look would find what the first has found.
    again = () if dry_run else (MESSAGES,)
    for number, shelf in enumerate((*SHELVES, *again)):
        place = shelf.first
        while True:
            began = time.monotonic()
            given = {**place, "rows": shelf.rows, "key_id": database.contents.sealing_key_id}
            rows = await database.fetch(shelf.read, given)
            if not rows:
                break
            page = await _reseal_page(database, shelf, rows, dry_run=dry_run)
            # What is looked at once more is counted once. A copy can't be opened only where what it copies can't be.
            yield page if number < len(SHELVES) else replace(page, read=0, unreadable=0)
            place = shelf.after(rows[-1])
            took = min(time.monotonic() - began, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(took if pause_seconds is None else pause_seconds)


async def _reseal_page(database: Database, shelf: Shelf, rows: Sequence[DictRow], *, dry_run: bool) -> Resealed:
    changes: list[tuple[DictRow, dict[str, str]]] = []
    unreadable, reasons = 0, set[str]()
    for row in rows:
        try:
            changed = _reseal_row(database, shelf, row)
        except ContentsUnreadableError as error:
            unreadable += 1
            reasons.add(str(error))
            continue
        if changed:
            changes.append((row, changed))
    written = len(changes)
    if changes and not dry_run:
        [answer] = await database.fetch(shelf.write, _parameters(shelf, changes))
        written = int(answer["rows"])
    return Resealed(len(rows), written, len(changes) - written, unreadable, frozenset(reasons))


def _reseal_row(database: Database, shelf: Shelf, row: DictRow) -> dict[str, str]:
    """The columns that change. A row without an owner is of a turn that was archived meanwhile."""
    changed = {}
    for name, _ in shelf.columns:
        stored = row[name]
        if stored is not None and row["of_session"] is not None:
            new = shelf.reseal(database.contents, row, name, stored)
            if new != stored:
                changed[name] = new
    return changed


def _parameters(shelf: Shelf, changes: Sequence[tuple[DictRow, dict[str, str]]]) -> dict[str, Any]:
    given: dict[str, Any] = {name: [row[name] for row, _ in changes] for name, _ in shelf.key}
    for name, _ in shelf.columns:
        given[f"old_{name}"] = [row[name] for row, _ in changes]
        given[f"new_{name}"] = [changed.get(name) for _, changed in changes]
    return given
