"""Webhooks in the table: what is owed, taken, delivered or given up.

A trigger (`webhooks.sql` of migration 0001) writes a row in the commit that ends the turn, one for each generation of it. It says
what happened then: the turn may move on before anybody is told. A try is counted when it is taken, like an attempt, so that
a row that takes its deliverer down with it comes to an end, too. A deliverer that dies leaves a `due_at`. What is put off because
others are under way to the same receiver is not counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.webhooks.url import parse_webhook_url

# A turn that is owed a webhook is in the table: the archive leaves it there.
LOOK: LiteralString = """
SELECT w.turn_id, w.generation, w.url, coalesce((SELECT t.tenant_id FROM turns t WHERE t.id = w.turn_id), '') AS tenant_id
  FROM webhooks w WHERE w.due_at <= now() AND NOT w.turn_id = ANY (%(left_out)s::uuid[]) ORDER BY w.due_at LIMIT %(limit)s
   FOR NO KEY UPDATE OF w SKIP LOCKED
"""

TAKE: LiteralString = """
UPDATE webhooks w SET due_at = clock_timestamp() + make_interval(secs => %(stamp)s), tries = w.tries + 1
  FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) one (turn_id, generation)
 WHERE w.turn_id = ANY (ARRAY[one.turn_id]) AND w.generation = ANY (ARRAY[one.generation])
RETURNING w.turn_id, w.generation, w.event, w.tries, w.due_at AS stamp
"""

# No try: nobody was asked.
PUT_OFF: LiteralString = """
UPDATE webhooks w SET due_at = clock_timestamp() + make_interval(secs => one.seconds)
  FROM unnest(%(ids)s::uuid[], %(generations)s::int[], %(seconds)s::float8[]) one (turn_id, generation, seconds)
 WHERE w.turn_id = ANY (ARRAY[one.turn_id]) AND w.generation = ANY (ARRAY[one.generation])
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
class DueWebhook:
    """A webhook that may be tried."""

    turn_id: UUID
    generation: int
    url: str
    tenant_id: str

    @property
    def host(self) -> str:
        """Whom a try would ask; nobody, where the address can't be read."""
        try:
            return parse_webhook_url(self.url).host
        except ValueError:
            return ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to become of what is due. The rest stays as it is."""

    taken: list[DueWebhook]
    put_off: list[tuple[DueWebhook, float]]
    """For so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedWebhook(DueWebhook):
    """A webhook that is ours to try, until `stamp`. `tries` counts this one."""

    event: Mapping[str, Any]
    tries: int
    stamp: datetime

    @property
    def event_id(self) -> str:
        """The same for every try, and another for each end of a turn."""
        return f"turn_{self.turn_id}_{self.generation}"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a look has brought, and whether there may be more behind what it has put off."""

    webhooks: list[OwedWebhook]
    put_off: int
    looked_at: int


async def take(
    database: Database,
    choose: Callable[[Sequence[DueWebhook]], Choice],
    *,
    look_at: int,
    stamp_seconds: float,
    left_out: Sequence[UUID] = (),
) -> Taken:
    """Takes what `choose` chooses of the oldest that are due; nobody else takes it for `stamp_seconds`.

    Raises DatabaseUnavailableError, and psycopg.Error where a row is refused: then nothing is taken.
    """
    look = {"limit": look_at, "left_out": list(left_out)}
    async with database.connection() as connection, connection.transaction():
        due = [DueWebhook(**row) for row in await (await connection.execute(LOOK, look)).fetchall()]
        choice = choose(due)
        rows: list[DictRow] = []
        if choice.taken:
            taken = {**_keys(choice.taken), "stamp": stamp_seconds}
            rows = await (await connection.execute(TAKE, taken)).fetchall()
        if choice.put_off:
            put_off = {**_keys([one for one, _ in choice.put_off]), "seconds": [after for _, after in choice.put_off]}
            await connection.execute(PUT_OFF, put_off)
    known = {(one.turn_id, one.generation): one for one in choice.taken}
    return Taken([_owed(known[row["turn_id"], row["generation"]], row) for row in rows], len(choice.put_off), len(due))


def _keys(webhooks: Sequence[DueWebhook]) -> dict[str, list[Any]]:
    return {"ids": [one.turn_id for one in webhooks], "generations": [one.generation for one in webhooks]}


def _owed(due: DueWebhook, row: DictRow) -> OwedWebhook:
    return OwedWebhook(**row, url=due.url, tenant_id=due.tenant_id)


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
