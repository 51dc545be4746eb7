"""The months of the archive: partitions of `archived_turns`, made as they are needed.

A month is made empty, by itself, and then attached: that locks out neither readers of the archive nor whoever writes to its
other months, where CREATE TABLE ... PARTITION OF would. Two archives at once make it once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import LiteralString

from psycopg.sql import SQL, Identifier, Literal

from turnstile.backends.postgres.database import Connection, Database
from turnstile.errors import TurnstileError

# Of the two numbers only the pair has to be nobody else's.
ONE_AT_A_TIME: LiteralString = "SELECT pg_advisory_xact_lock(1953852014, 5)"

MISSING: LiteralString = """
SELECT m.name FROM unnest(%(names)s::text[]) m (name)
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass(m.name) AND c.relispartition)
"""

EXISTS: LiteralString = "SELECT to_regclass(%(name)s) IS NOT NULL AS exists"

CREATE: LiteralString = "CREATE TABLE {month} (LIKE archived_turns INCLUDING DEFAULTS)"

ATTACH: LiteralString = "ALTER TABLE archived_turns ATTACH PARTITION {month} FOR VALUES FROM ({begin}) TO ({end})"


class MonthDetachedError(TurnstileError):
    """A table of the month's name stands beside the archive: somebody has detached it, and it is his to drop or to rename."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the table {name} is there, but is no part of the archive: drop it or rename it")
        self.name = name


def name_month(month: datetime) -> str:
    """The table of a month, which is that of UTC."""
    return f"archived_turns_{month.astimezone(UTC):%Y_%m}"


async def make_months(database: Database, moments: Iterable[datetime]) -> None:
    """Makes the months of these moments that are missing.

    Raises MonthDetachedError, DatabaseUnavailableError; may be called again.
    """
    months = {name_month(moment): _begin(moment) for moment in moments}
    for row in await database.fetch(MISSING, {"names": sorted(months)}):
        name = row["name"]
        async with database.connection() as connection, connection.transaction():
            await connection.execute(ONE_AT_A_TIME)
            await _make(connection, name, months[name])


async def _make(connection: Connection, name: str, begin: datetime) -> None:
    # Another archive may have been quicker, or somebody else's table has the name.
    if await (await connection.execute(MISSING, {"names": [name]})).fetchone() is None:
        return
    found = await (await connection.execute(EXISTS, {"name": name})).fetchone()
    if found is not None and found["exists"]:
        raise MonthDetachedError(name)
    month = Identifier(name)
    end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    await connection.execute(SQL(CREATE).format(month=month))
    bounds = {"begin": Literal(begin.isoformat()), "end": Literal(end.isoformat())}
    await connection.execute(SQL(ATTACH).format(month=month, **bounds))


def _begin(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
