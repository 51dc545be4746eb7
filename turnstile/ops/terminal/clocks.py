"""Compares the clock of the database, which sets all times of turns, with the one of this machine."""

from datetime import datetime, timedelta
from typing import LiteralString

from turnstile.backends.postgres.database import Database

TOLERANCE_SECONDS = 5.0
"""Clocks that are kept by NTP differ by less."""

_READ: LiteralString = "SELECT clock_timestamp() AS at"


async def read_clock(database: Database) -> datetime:
    """The database's time. Raises DatabaseUnavailableError."""
    at: datetime = (await database.fetch(_READ, {}))[0]["at"]
    return at


def find_difference(database: datetime, before: datetime, after: datetime) -> timedelta | None:
    """By how much the database's clock is ahead (below zero: behind) of the one that read `before` and `after` around the call.

    None if they differ by TOLERANCE_SECONDS or less; the time of the call counts for them.
    """
    ahead = max(database - after, min(database - before, timedelta()))
    return ahead if abs(ahead) > timedelta(seconds=TOLERANCE_SECONDS) else None
