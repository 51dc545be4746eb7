"""Logging: one line an event, as JSON or for people, bound to the turn it is about.

Never message text, never a receipt handle, never a key: lines carry ids, counts and classes (G24, and the canary test).
"""

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, cast

import orjson
import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

from turnstile.backends.ecs_agent import EcsAgentError, read_task_id
from turnstile.config.settings import Settings

_process: dict[str, str] = {}
"""What stands in every line of this process, whichever thread writes it."""

# One variable for all of it, because a turn has four lines: structlog has one for each name, and gathers them for each line.
_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound", default=MappingProxyType({}))


def configure(settings: Settings) -> None:
    """Sets up structlog for this process; the standard library's loggers (uvicorn, boto3) join the same stream.

    In an ECS task its id stands in every line, or a warning once that it could not be learnt.
    """
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    ending: Any
    factory: Any
    if as_json:
        ending = _render
        factory = structlog.BytesLoggerFactory(cast("Any", _Stream(sys.stderr.buffer)))
    else:
        ending = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        factory = structlog.PrintLoggerFactory(cast("Any", _Stream(sys.stderr)))
    structlog.configure(
        processors=[_complete, ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_complete],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, ending, _decode],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    if settings.ecs_metadata_uri is not None:
        _learn_task(settings.ecs_metadata_uri)


class _Stream:
    """Where lines go. One that can't be written is lost, on a full disk or with nobody at the pipe's other end.

    Whoever logs is in the middle of something: a worker would leave its session locked, the heartbeat's thread end, and the
    API answer 500 for a turn that it has accepted.
    """

    def __init__(self, file: IO[Any]) -> None:
        self._file = file

    def write(self, line: Any) -> None:
        try:
            self._file.write(line)
        except (OSError, ValueError):
            return

    def flush(self) -> None:
        try:
            self._file.flush()
        except (OSError, ValueError):
            return


def identify(**ids: str) -> None:
    """From now on these stand in every line of the process. Not by context variables: other threads have none of ours."""
    _process.update(ids)


def _learn_task(metadata_uri: str) -> None:
    try:
        identify(task_id=read_task_id(metadata_uri))
    except EcsAgentError as error:
        structlog.get_logger("turnstile.logs").warning("logs.no_task_id", error=str(error))


def bind(**ids: Any) -> None:
    """From now on these stand in every line of this context, a task's or a thread's."""
    _bound.set({**_bound.get(), **ids})


def _complete(logger: "WrappedLogger", method: str, event: "EventDict") -> "EventDict":
    # What a handler has bound by structlog's own means.
    structlog.contextvars.merge_contextvars(logger, method, event)
    structlog.processors.add_log_level(logger, method, event)
    error = event.get("error")
    if isinstance(error, str):
        # Postgres quotes the row's values in the DETAIL of its errors: only the first line of an error is ours to log.
        event["error"] = error.partition("\n")[0][:500]
    # By orjson: isoformat() is five times as much work, a fifth of a whole line.
    timestamp = orjson.dumps(datetime.now(UTC), option=orjson.OPT_UTC_Z)[1:-1].decode()
    return {**_process, **_bound.get(), **event, "timestamp": timestamp}


def _render(logger: "WrappedLogger", method: str, event: "EventDict") -> bytes:
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    try:
        return orjson.dumps(event, default=str)
    except TypeError:
        # A lone surrogate or a giant number, which somebody else's text may bring: escaped, but not lost.
        return json.dumps(event, default=str).encode()


def _decode(_: "WrappedLogger", __: str, line: Any) -> str:
    """For the standard library, whose handlers write text."""
    return line.decode() if isinstance(line, bytes) else str(line)
