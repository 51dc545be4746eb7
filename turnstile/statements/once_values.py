"""The values that `ctx.once` records: results of side effects, stored with their turn and written under its fence.

A value is written once and never changed. A superseded worker writes none: one statement checks the claim and inserts the
value. Values belong to the turn, not to the attempt: a retry or a redrive finds them.
"""

from dataclasses import dataclass
from typing import Any, LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.sealing.place import Place, value_column
from turnstile.statements.session_head import IS_RUNNING
from turnstile.turn.claimed_turn import ClaimedTurn

READ_VALUES: LiteralString = "SELECT v.key, v.value FROM turn_values v WHERE v.turn_id = %(turn)s"

RECORD_VALUE: LiteralString = f"""
INSERT INTO turn_values (turn_id, key, value, fence)
SELECT t.id, %(key)s, %(value)s::json, t.fence FROM turns t
 WHERE t.id = %(turn)s AND t.fence = %(fence)s AND {IS_RUNNING}
ON CONFLICT DO NOTHING
RETURNING value
"""

# A separate statement: the snapshot of RECORD_VALUE lacks what a lost call of this process committed meanwhile.
REREAD_VALUE: LiteralString = f"""
SELECT v.value FROM turns t JOIN turn_values v ON v.turn_id = t.id AND v.key = %(key)s
 WHERE t.id = %(turn)s AND t.fence = %(fence)s AND {IS_RUNNING}
"""


@dataclass(frozen=True, slots=True)
class RecordedValue:
    """A value as the table has it and as every later read returns it: JSON has fewer types than Python."""

    value: Any


async def read_values(database: Database, turn: ClaimedTurn) -> dict[str, Any]:
    """All recorded values of a turn, by key. Raises ContentsUnreadableError."""
    rows = await database.fetch(READ_VALUES, {"turn": turn.id})
    return {row["key"]: database.contents.open_json(row["value"], _place(turn, row["key"])) for row in rows}


async def record_value(database: Database, turn: ClaimedTurn, key: str, value: str) -> RecordedValue | None:
    """Records `value`, a JSON text, unless the key has a value; returns the value in the table. None: the claim is superseded.

    Raises DatabaseUnavailableError; the call may then be repeated, and finds what the lost call wrote.
    """
    place = _place(turn, key)
    sealed = database.contents.seal_json(value, place)
    parameters = {"turn": turn.id, "fence": turn.fence, "key": key, "value": sealed}
    rows = await database.fetch(RECORD_VALUE, parameters) or await database.fetch(REREAD_VALUE, parameters)
    return RecordedValue(database.contents.open_json(rows[0]["value"], place)) if rows else None


def _place(turn: ClaimedTurn, key: str) -> Place:
    return Place(turn.tenant_id, turn.session_id, turn.id, value_column(key))
