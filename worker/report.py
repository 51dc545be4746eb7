"""The log lines of a turn's end: retries are INFO, and a turn that finally fails is one ERROR line (G26).

The alarm of the operators watches that line, so it is written in one place and once per failure.
"""

from typing import Any

import structlog

from turns.claim import EndedAtClaim
from turns.claimed_turn import ClaimedTurn
from turns.settlement import Settlement
from turns.status import TurnStatus

log = structlog.get_logger("turnstile.turn")


def report_settled(turn: ClaimedTurn, status: TurnStatus, settlement: Settlement, seconds: float) -> None:
    """A claim ended. `status` is what was committed, which a cancel may have changed from what was asked for."""
    fields: dict[str, Any] = {
        "turn_id": str(turn.id),
        "session_id": turn.session_id,
        "attempt": turn.attempt,
        "fence": turn.fence,
        "trace_id": turn.trace_id,
        "seconds": round(seconds, 3),
    }
    if status is TurnStatus.FAILED:
        log.error("turn.failed", error_class=settlement.error_class, dead_letter=settlement.dead_letter, **fields)
    elif status is TurnStatus.PENDING:
        wait = round(settlement.after_seconds, 3)
        log.info(f"turn.{settlement.outcome}", error_class=settlement.error_class, after_seconds=wait, **fields)
    else:
        log.info(f"turn.{status.lower()}", **fields)


def report_ended(ended: EndedAtClaim) -> None:
    """A turn was ended at its claim: its worker was lost once too often, or it had been cancelled."""
    fields: dict[str, Any] = {
        "turn_id": str(ended.turn_id),
        "session_id": ended.session_id,
        "trace_id": ended.trace_id,
    }
    if ended.status is TurnStatus.FAILED:
        log.error("turn.failed", error_class=ended.error_class, dead_letter=True, **fields)
    else:
        log.info(f"turn.{ended.status.lower()}", **fields)
