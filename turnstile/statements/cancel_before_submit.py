"""A cancel that comes before its submit: only for turn ids that clients choose.

Submit and cancel both write the row of the id, so the second waits for the first one's commit and then sees it. A cancel that
comes first leaves a tombstone, and the submit inserts the turn as CANCELED (`statements.submit.SUBMIT`). A cancel that comes
second learns that the turn exists. An id that we made can't be cancelled before its submit, because no client knows it: a plain
submit writes nothing here.
"""

from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET, OLDER
from turnstile.turn.cancel_reason import CancelReason

LEAVE_TOMBSTONE: LiteralString = """
INSERT INTO chosen_ids AS c (tenant_id, turn_id, canceled_at, reason)
VALUES (%(tenant)s, %(id)s, clock_timestamp(), %(reason)s)
ON CONFLICT (tenant_id, turn_id) DO UPDATE
   SET canceled_at = CASE WHEN c.submitted_at IS NULL THEN coalesce(c.canceled_at, excluded.canceled_at) ELSE c.canceled_at END,
       reason = CASE WHEN c.submitted_at IS NULL THEN coalesce(c.reason, excluded.reason) ELSE c.reason END
RETURNING c.submitted_at
"""

FORGET_CHOSEN_IDS: LiteralString = FORGET.format(table="chosen_ids", over=OLDER, by="created_at")


async def leave_tombstone(database: Database, tenant_id: str, turn_id: UUID, reason: CancelReason) -> bool:
    """Records that a later submit with this id is cancelled. False if the submit came before.

    Raises DatabaseUnavailableError; may be called again.
    """
    tombstone = {"tenant": tenant_id, "id": turn_id, "reason": reason.value}
    [row] = await database.fetch(LEAVE_TOMBSTONE, tombstone)
    return row["submitted_at"] is None


async def forget_chosen_ids(database: Database, older_than_seconds: float) -> bool:
    """Deletes the oldest of the rows older than `older_than_seconds`. True if there may be more of them."""
    [row] = await database.fetch(FORGET_CHOSEN_IDS, {"older_than": older_than_seconds})
    return bool(row["gone"] == AT_ONCE)
