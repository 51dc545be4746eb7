"""Webhooks in the table: what is owed, taken, delivered or given up.

A row is written by a trigger in the commit that ends the turn (migration 0002), one for each generation of it, and says what
happened then: the turn may move on before anybody is told. A try is counted when it is taken, like an attempt, so that
a row that takes its deliverer down with it comes to an end, too. A deliverer that dies leaves a `due_at`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turns.database import Database

TAKE: LiteralString = """
WITH due AS MATERIALIZED (
    SELECT turn_id, generation FROM webhooks WHERE due_at <= now() ORDER BY due_at LIMIT %(limit)s
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhooks w SET due_at = clock_timestamp() + make_interval(secs => %(stamp)s), tries = w.tries + 1
  FROM due WHERE w.turn_id = due.turn_id AND w.generation = due.generation
RETURNING w.turn_id, w.generation, w.url, w.event, w.tries, w.due_at AS stamp
"""

# Whoever has the stamp by now: what has arrived has arrived.
NOTE_DELIVERED: LiteralString = """
UPDATE webhooks SET delivered_at = clock_timestamp(), due_at = NULL, error = NULL
 WHERE turn_id = %(turn)s AND generation = %(generation)s AND delivered_at IS NULL
"""

NOTE_FAILED: LiteralString = """
UPDATE webhooks SET error = %(error)s, due_at = clock_timestamp() + make_interval(secs => %(again)s)
 WHERE turn_id = %(turn)s AND generation = %(generation)s AND due_at = %(stamp)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedWebhook:
    """A webhook that is ours to try, until `stamp`. `tries` counts this one."""

    turn_id: UUID
    generation: int
    url: str
    event: Mapping[str, Any]
    tries: int
    stamp: datetime

    @property
    def event_id(self) -> str:
        """The same for every try, and another for each end of a turn."""
        return f"turn_{self.turn_id}_{self.generation}"


async def take(database: Database, *, limit: int, stamp_seconds: float) -> list[OwedWebhook]:
    """Takes what is due, at most `limit`; nobody else takes it for `stamp_seconds`."""
    rows = await database.fetch(TAKE, {"limit": limit, "stamp": stamp_seconds})
    return [OwedWebhook(**row) for row in rows]


async def note_delivered(database: Database, webhook: OwedWebhook) -> None:
    """It has arrived; nothing is owed any more."""
    await database.fetch(NOTE_DELIVERED, {"turn": webhook.turn_id, "generation": webhook.generation})


async def note_failed(database: Database, webhook: OwedWebhook, error: str, *, again_in_seconds: float | None) -> None:
    """It has not arrived; it is due once more, or with None never again."""
    parameters = {
        "turn": webhook.turn_id,
        "generation": webhook.generation,
        "stamp": webhook.stamp,
        "error": error,
        "again": again_in_seconds,
    }
    await database.fetch(NOTE_FAILED, parameters)
