"""What the checker says: one rule that did not hold, for one turn or session."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A conviction. The turn's story (`story.tell`) is the proof."""

    invariant: str
    """"I1" to "I23", or "LOGS"."""
    claim: str
    """One line: what was seen, and what should have been."""
    turn_id: str | None = None
    session: str | None = None
