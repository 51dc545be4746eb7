"""Garbage collector settings for a long-running process."""

import gc

COLLECT_EVERY = 10_000
"""Net new objects before the collector looks for cycles. Python's default of 700 is reached every twenty turns, and reference
counts free nearly all garbage of turns without the collector."""


def spare_collector() -> None:
    """Tunes the collector. Call it once, after everything is loaded."""
    # Modules and other objects made so far live until the end: repeated scans of them find nothing.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
