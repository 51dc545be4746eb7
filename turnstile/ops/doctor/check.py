"""One check of `turnstile doctor`: its code, how bad it is, what it means, and what to do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import LiteralString


class Severity(StrEnum):
    """How bad a finding is. Both end the command with the exit code for findings."""

    ERROR = "error"
    """Turns wait longer than they should, will do so, or fail."""
    WARNING = "warning"
    """Turns go on, and an operator has something to decide or to set."""


class Remedy(StrEnum):
    """What `--fix` does. It may be repeated. It does not change any status, attempt or reply."""

    WAKE = "wake"
    """Marks the turn as due, so that a relay sends its wake-up."""
    SWEEP = "sweep"
    """Deletes the dead letters whose turns have moved on, as a redrive does."""
    ADVANCE = "advance"
    """Sets the fences of Postgres above those that Redis has seen."""


@dataclass(frozen=True, slots=True)
class Check:
    """One code. `blinding` means that something could not be checked."""

    code: str
    severity: Severity
    meaning: str
    advice: str
    """What an operator does. A finding puts its own `{subject}`, `{queue}` or `{turn}` in, so that a
    command can be pasted; a command stands in backticks, so that no line ends in it."""
    remedy: Remedy | None = None
    blinding: bool = False
    statement: LiteralString | None = None
    """The query that finds it; None if `turnstile/ops/doctor/run_checks.py` does."""
