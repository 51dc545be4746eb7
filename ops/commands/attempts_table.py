"""How the attempts of a turn are shown: how long each waited and ran, why it ended, and where the last failure was raised."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import typer

from turnstile.ops.terminal.output import Columns, harmless, print_table, shortened
from turnstile.queries.attempts import EndedAttempt
from turnstile.queries.turns import TurnRecord
from turnstile.turn.status import TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTimes:
    """Seconds of a turn in its generation. A time that has not ended goes on until now; None: it has not begun."""

    waiting_seconds: float
    """From `queued_at` to the first start. A turn that ended without a start waited until its end."""
    running_seconds: float | None
    """From the first start to the end, retries and their pauses included."""
    total_seconds: float


def measure_turn(turn: TurnRecord, now: datetime) -> TurnTimes:
    """The times of a turn by the one definition of the glossary."""
    queued_at = turn.queued_at or turn.created_at
    end = turn.finished_at or now
    running = None if turn.first_started_at is None else _seconds(turn.first_started_at, end)
    return TurnTimes(
        waiting_seconds=_seconds(queued_at, turn.first_started_at or end),
        running_seconds=running,
        total_seconds=_seconds(queued_at, end),
    )


def as_document(attempt: EndedAttempt) -> dict[str, Any]:
    """For JSON: the row of the attempt, and how long it waited and ran; null if it never started."""
    return {
        **asdict(attempt),
        "waiting_seconds": _between(attempt.due_at, attempt.started_at),
        "running_seconds": _between(attempt.started_at, attempt.finished_at),
    }


def print_attempts(turn: TurnRecord, attempts: Sequence[EndedAttempt], now: datetime) -> None:
    """Prints the ended attempts, the one under way, and below them the traceback of the last that has one."""
    rows = [as_document(attempt) for attempt in attempts]
    if turn.status is TurnStatus.RUNNING:
        rows.append(
            {
                "generation": turn.generation,
                "attempt": turn.attempt,
                "outcome": "runs",
                "started_at": turn.started_at,
                "running_seconds": _between(turn.started_at, now),
                "worker_id": turn.worker_id,
            }
        )
    if not rows:
        return
    typer.echo()
    columns: Columns = {
        "generation": lambda row: row["generation"],
        "attempt": lambda row: row["attempt"],
        "outcome": lambda row: row["outcome"],
        "waited": lambda row: as_duration(row.get("waiting_seconds")),
        "ran": lambda row: as_duration(row.get("running_seconds")),
        "started": lambda row: row["started_at"],
        "finished": lambda row: row.get("finished_at"),
        "worker": lambda row: row["worker_id"],
        "fence": lambda row: row.get("fence"),
        "reason": lambda row: ": ".join(filter(None, (row.get("error_class"), shortened(row.get("error"))))),
    }
    print_table(columns, rows)
    for attempt in reversed(attempts):
        if attempt.traceback:
            typer.echo(f"\ntraceback of attempt {attempt.attempt} of generation {attempt.generation}:")
            typer.echo(harmless(attempt.traceback.rstrip("\n")))
            break


def as_duration(seconds: float | None) -> str:
    """Such as 0.25 s, 12.3 s, 5m 10s, 3h 05m; empty for None."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes}m {rest:02}s"
    return f"{minutes // 60}h {minutes % 60:02}m"


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else _seconds(start, end)


def _seconds(start: datetime, end: datetime) -> float:
    # Not below 0: the operator's clock may be behind the database's.
    return max(0.0, round((end - start).total_seconds(), 3))
