"""What operators have set in place of the declared limits. Workers read it with every heartbeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import change_and_record
from turnstile.backends.postgres.database import Database
from turnstile.limits.rules import Amounts, LimitKey
from turnstile.statements.worker_registry import ALIVE

SET: LiteralString = """
INSERT INTO limit_overrides (limit_name, value, concurrency, rate, burst, set_by, reason)
VALUES (%(limit)s, %(value)s, %(concurrency)s, %(rate)s, %(burst)s, %(set_by)s, %(reason)s)
    ON CONFLICT (limit_name, value) DO UPDATE
   SET concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst, set_by = excluded.set_by,
       reason = excluded.reason, set_at = clock_timestamp()
RETURNING limit_name
"""

CLEAR: LiteralString = """
DELETE FROM limit_overrides WHERE limit_name = %(limit)s AND value = %(value)s RETURNING limit_name
"""

READ_OVERRIDES: LiteralString = f"""
SELECT n.workers, o.* FROM (SELECT count(*) AS workers FROM workers w WHERE {ALIVE}) n LEFT JOIN limit_overrides o ON true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Amounts in place of the declared ones; None: as declared."""

    limit_name: str
    value: str
    """Empty: all values of the limit's key."""
    concurrency: int | None
    rate: float | None
    burst: int | None
    set_by: str
    reason: str | None
    set_at: datetime

    @property
    def amounts(self) -> Amounts:
        return Amounts(concurrency=self.concurrency, rate=self.rate, burst=self.burst)


@dataclass(frozen=True, slots=True)
class FleetState:
    """What the limits depend on, besides their declaration."""

    workers: int
    """Those that are alive, on all queues."""
    overrides: tuple[Override, ...]

    @property
    def amounts(self) -> Mapping[LimitKey, Amounts]:
        return {(one.limit_name, one.value): one.amounts for one in self.overrides}


async def read_fleet_state(database: Database) -> FleetState:
    """Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ_OVERRIDES, {})
    found = [{name: value for name, value in row.items() if name != "workers"} for row in rows if row["limit_name"]]
    return FleetState(rows[0]["workers"], tuple(Override(**row) for row in found))


async def set_override(
    database: Database, limit: str, value: str, amounts: Amounts, *, set_by: str, reason: str | None
) -> None:
    """Replaces an earlier override of this value. Raises DatabaseUnavailableError."""
    given = {"concurrency": amounts.concurrency, "rate": amounts.rate, "burst": amounts.burst}
    # Whole numbers: a rate is counted in turns an hour.
    counts = {"concurrency": amounts.concurrency, "burst": amounts.burst}
    if amounts.rate is not None:
        counts["turns_an_hour"] = round(3600 * amounts.rate)
    event = AuditEvent(
        kind=AuditKind.LIMIT_SET,
        actor=set_by,
        subject=_subject(limit, value),
        counts={name: count for name, count in counts.items() if count is not None},
        reason=reason,
    )
    await change_and_record(
        database,
        SET,
        {**given, "limit": limit, "value": value, "set_by": set_by, "reason": reason},
        lambda _: event,
    )


async def clear_override(database: Database, limit: str, value: str, *, cleared_by: str) -> bool:
    """False if there was none. Raises DatabaseUnavailableError."""
    event = AuditEvent(kind=AuditKind.LIMIT_REMOVED, actor=cleared_by, subject=_subject(limit, value))
    return await change_and_record(database, CLEAR, {"limit": limit, "value": value}, lambda _: event) is not None


def _subject(limit: str, value: str) -> str:
    return f"limit {limit} of {value}" if value else f"limit {limit}"
