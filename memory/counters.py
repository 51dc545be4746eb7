"""What is counted about the working memory, for an exporter to read (H10). Pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class MemoryCounters:
    """Since the start of the process; they only rise."""

    hits: int = 0
    """Items that were asked for by key and found, in Redis or in Postgres."""
    misses: int = 0
    loads: int = 0
    """Times that a session's durable items were read from Postgres."""
    writes: int = 0
    deletes: int = 0
    conflicts: int = 0
    """Writes that expected another version."""
    evictions: int = 0
    """Items of low priority that went because memory was short."""
    refusals: int = 0
    """Calls that Redis was there for and refused: out of memory, read-only, loading."""
    outages: int = 0
    """Calls that Redis did not answer."""

    @property
    def hit_ratio(self) -> float | None:
        """Hits by all that was asked for; None before anything was."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None
