"""Logging: one line an event, as JSON or for people, bound to the turn it is about.

Never message text, never a receipt handle, never a key: lines carry ids, counts and classes (G24, and the canary test).
"""

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

from turns.settings import Settings


def configure(settings: Settings) -> None:
    """Sets up structlog for this process; the standard library's loggers (uvicorn, boto3) join the same stream."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _scrub,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(default=str)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer] if as_json else [*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _scrub(_: "WrappedLogger", __: str, event: "EventDict") -> "EventDict":
    # Postgres quotes the row's values in the DETAIL of its errors: only the first line of an error is ours to log.
    error = event.get("error")
    if isinstance(error, str):
        event["error"] = error.partition("\n")[0][:500]
    return event
