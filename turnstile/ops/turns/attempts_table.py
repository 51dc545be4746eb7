"""How the attempts of a turn are shown: how long each waited and ran, why it ended, and where the last failure was raised."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from turnstile.ops.terminal.output import Columns, describe_error, print_table, print_text, short_duration
from turnstile.ops.turns.attempts import EndedAttempt
from turnstile.ops.turns.turn_document import attempt_document, seconds_between
from turnstile.telemetry.terminal_text import harmless
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord


def print_attempts(turn: TurnRecord, attempts: Sequence[EndedAttempt], now: datetime) -> None:
    """Prints the ended attempts, the one under way, and below them the traceback of the last that has one."""
    rows = [attempt_document(attempt) for attempt in attempts]
    if turn.status is TurnStatus.RUNNING:
        rows.append(
            {
                "generation": turn.generation,
                "attempt": turn.attempt,
                "outcome": "runs",
                "started_at": turn.started_at,
                "running_seconds": seconds_between(turn.started_at, now),
                "worker_id": turn.worker_id,
            }
        )
    if not rows:
        return
    print_text()
    columns: Columns = {
        "generation": lambda row: row["generation"],
        "attempt": lambda row: row["attempt"],
        "outcome": lambda row: row["outcome"],
        "waited": lambda row: short_duration(row.get("waiting_seconds")),
        "ran": lambda row: short_duration(row.get("running_seconds")),
        "started": lambda row: row["started_at"],
        "finished": lambda row: row.get("finished_at"),
        "worker": lambda row: row["worker_id"],
        "release": lambda row: row.get("release"),
        "fence": lambda row: row.get("fence"),
        "reason": _reason,
    }
    print_table(columns, rows)
    for attempt in reversed(attempts):
        if attempt.traceback:
            print_text(f"\ntraceback of attempt {attempt.attempt} of generation {attempt.generation}:")
            print_text(harmless(attempt.traceback.rstrip("\n")))
            break


def _reason(row: dict[str, Any]) -> str:
    if row["outcome"] == AttemptOutcome.LOST:
        return "its worker was lost"
    return describe_error(row.get("error_class"), row.get("error"))
