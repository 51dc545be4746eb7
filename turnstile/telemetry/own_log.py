"""The logger of Turnstile, which all modules use.

It keeps processors and an output of its own. structlog's defaults are for the user's code: a handler's module, or a library that
it imports, may configure them, and alarms count our lines.
"""

from typing import Any

import structlog

PROCESSORS: list[Any] = list(structlog.get_config()["processors"])
"""The processors of each line: structlog's own until `process.logs` fills the list. It is changed in place, because the
logger holds this list."""


class Output:
    """Where the lines go."""

    logger: Any = None
    """structlog's logger for the last processor's form. None: nothing is configured, and lines are printed."""

    def __getattr__(self, method: str) -> Any:
        return getattr(self.logger or structlog.PrintLogger(), method)


OUTPUT = Output()

log: Any = structlog.wrap_logger(
    OUTPUT,
    processors=PROCESSORS,
    wrapper_class=structlog.make_filtering_bound_logger(0),
    context_class=dict,
    cache_logger_on_first_use=True,
)
