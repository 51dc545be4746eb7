"""The CHECKs of the table `turns` and its trigger, as migration 0001 has them.

Written out here once more, and not taken from `turn.status`: a fake that asks the product what is legal would agree
with whatever the product does.
"""

from psycopg import errors

from tests.support.fakes.store_rows import TurnRow
from turnstile.turn.status import TurnStatus

OPEN = (TurnStatus.PENDING, TurnStatus.RUNNING)

LEGAL = frozenset(
    {
        (TurnStatus.PENDING, TurnStatus.RUNNING),
        (TurnStatus.PENDING, TurnStatus.CANCELED),
        (TurnStatus.RUNNING, TurnStatus.PENDING),
        (TurnStatus.RUNNING, TurnStatus.SUCCEEDED),
        (TurnStatus.RUNNING, TurnStatus.FAILED),
        (TurnStatus.RUNNING, TurnStatus.CANCELED),
    }
)


def check_row(row: TurnRow) -> None:
    """The CHECK constraints. Raises psycopg.errors.CheckViolation with the constraint's name."""
    running = row.status is TurnStatus.RUNNING
    if running != (row.lease_until is not None):
        raise errors.CheckViolation(f"turns_lease_while_running: turn {row.id}")
    if (row.status in OPEN) != (row.finished_at is None):
        raise errors.CheckViolation(f"turns_finished_when_ended: turn {row.id}")
    if row.status is TurnStatus.PENDING and row.send_at is None:
        raise errors.CheckViolation(f"turns_pending_has_send_at: turn {row.id}")
    if running and row.seq is None:
        raise errors.CheckViolation(f"turns_running_has_seq: turn {row.id}")


def check_birth(row: TurnRow) -> None:
    if row.status not in {TurnStatus.PENDING, TurnStatus.CANCELED}:
        raise errors.CheckViolation(f"turns_legal_transition: turn {row.id} may not begin as {row.status}")


def check_transition(row: TurnRow, before: TurnStatus, fence_before: int, generation_before: int) -> None:
    """The trigger `turns_legal_transition`: for an UPDATE whose SET list names status or fence."""
    revived = (before, row.status) == (TurnStatus.FAILED, TurnStatus.PENDING)
    legal = (before, row.status) in LEGAL or (revived and row.generation == generation_before + 1)
    if before is not row.status and not legal:
        raise errors.CheckViolation(f"turns_legal_transition: turn {row.id} may not go from {before} to {row.status}")
    if row.fence < fence_before or (row.status is TurnStatus.RUNNING and row.fence == fence_before):
        raise errors.CheckViolation(f"turns_fence_rises: turn {row.id} may not go from {fence_before} to {row.fence}")
