"""The garbage collector of a process that stays."""

import gc

COLLECT_EVERY = 10_000
"""Objects that came and stayed, before the collector looks for cycles among them. Python's own 700 come with every twenty
turns; what turns leave behind is nearly all gone without it."""


def spare_collector() -> None:
    """To be called once everything is loaded."""
    # The modules and everything made so far stay to the end; going through them again and again finds nothing.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
