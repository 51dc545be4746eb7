"""What the chaos harness's audit trigger would write (`tests/proof/chaos/audit.py`), as the checker reads it."""

from typing import Any

from tests.proof.checker.tables import Change
from tests.support.fakes.store_rows import TurnRow, columns, seconds

AUDITED = ("status", "fence", "generation", "seq", "cancel_requested_at")


def is_audited(row: TurnRow, before: dict[str, Any]) -> bool:
    """Whether an update of the columns in `before` is worth a record."""
    return any(name in before and before[name] != getattr(row, name) for name in AUDITED)


def make_change(row: TurnRow, before: dict[str, Any] | None, *, n: int, at: float, txid: int) -> Change:
    """The record of an update, with the columns of its SET list as they were; None for an insert."""

    def was(name: str) -> Any:
        return None if before is None else before.get(name, getattr(row, name))

    return Change(
        n=n,
        at=at,
        txid=txid,
        turn_id=str(row.id),
        tenant=row.tenant_id,
        session=row.session_id,
        before=None if before is None else was("status").value,
        after=row.status.value,
        attempt_before=was("attempt"),
        fence_before=was("fence"),
        worker=row.worker_id,
        lease_until=seconds(row.lease_until),
        lease_before=seconds(was("lease_until")),
        execute_at=seconds(row.execute_at),
        send_at=seconds(row.send_at),
        cancel_requested=row.cancel_requested_at is not None,
        **columns(row, ("seq", "attempt", "failures", "crashes", "generation", "fence", "error_class")),
    )
