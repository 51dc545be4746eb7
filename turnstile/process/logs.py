"""Logging: one line per event, as JSON or for a terminal, with the ids of its turn.

Lines carry ids, counts and classes, never message text, receipt handles or keys.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
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
from turnstile.telemetry.own_log import OUTPUT, PROCESSORS, log
from turnstile.telemetry.terminal_text import harmless

SAME_SECONDS = 30.0

_process: dict[str, str] = {}
"""Fields of every line of this process, from any thread."""

# One variable for all fields: structlog has one per field and collects them for each line, and a turn has only four lines.
_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound", default=MappingProxyType({}))


def configure(settings: Settings) -> None:
    """Configures our own log for this process; the standard library's loggers (uvicorn, boto3) write to the same stream.

    So do structlog's loggers of a handler, unless its module configures them otherwise. That does not change our lines.

    In an ECS task every line has the task's id. If the id can't be read, there is one warning.
    """
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    ending: list[Any]
    factory: Any
    if as_json:
        ending = [_render]
        factory = structlog.BytesLoggerFactory(cast("Any", _Stream(sys.stderr.buffer)))
    else:
        ending = [_for_terminal, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        factory = structlog.PrintLoggerFactory(cast("Any", _Stream(sys.stderr)))
    PROCESSORS[:] = [_at_least(level), _complete, *ending]
    OUTPUT.logger = factory()
    structlog.configure(
        processors=[_complete, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Repeats())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_name, _complete],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending, _decode],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    if settings.ecs_metadata_uri is not None:
        _learn_task(settings.ecs_metadata_uri)


class _Repeats(logging.Filter):
    """Drops a sentence of the connection pools that was logged within SAME_SECONDS: each of them tries every second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != "psycopg.pool":
            return True
        sentence, now = record.getMessage(), time.monotonic()
        self._said = {said: at for said, at in self._said.items() if now - at < SAME_SECONDS}
        if sentence in self._said:
            return False
        self._said[sentence] = now
        return True


class _Stream:
    """The output of the log. It drops a line that can't be written: the disk is full, or the pipe has no reader.

    An exception from a log call would interrupt its caller: a worker would leave its session locked, the heartbeat's thread
    would end, and the API would return 500 for a turn that it has accepted.
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
    """Adds `ids` to every later line of the process. Not by context variables, because other threads do not see them."""
    _process.update(ids)


def _learn_task(metadata_uri: str) -> None:
    try:
        identify(task_id=read_task_id(metadata_uri))
    except EcsAgentError as error:
        log.warning("logs.no_task_id", error=str(error))


def bind(**ids: Any) -> None:
    """Adds `ids` to every later line of the current context: a task or a thread."""
    _bound.set({**_bound.get(), **ids})


def _at_least(level: int) -> Callable[["WrappedLogger", str, "EventDict"], "EventDict"]:
    dropped = {name for name, number in structlog.processors.NAME_TO_LEVEL.items() if number < level}

    def drop(_: "WrappedLogger", method: str, event: "EventDict") -> "EventDict":
        if method in dropped:
            raise structlog.DropEvent
        return event

    return drop


def _name(_: "WrappedLogger", __: str, event: "EventDict") -> "EventDict":
    """Libraries log sentences, which nobody can search for: the event is the logger's name, and the sentence is a
    field."""
    return {**event, "event": event["_record"].name, "message": event["event"]}


def _complete(logger: "WrappedLogger", method: str, event: "EventDict") -> "EventDict":
    structlog.processors.add_log_level(logger, method, event)
    error = event.get("error")
    if isinstance(error, str):
        # The DETAIL of a Postgres error quotes the values of the row: log only the first line of an error.
        event["error"] = error.partition("\n")[0][:500]
    # orjson, because isoformat() takes five times as long, a fifth of the time for a whole line.
    timestamp = orjson.dumps(datetime.now(UTC), option=orjson.OPT_UTC_Z)[1:-1].decode()
    # First those that a handler may bind with structlog's own context variables, so that they overwrite no field of ours.
    theirs = structlog.contextvars.get_contextvars()
    return {**theirs, **_process, **_bound.get(), **event, "timestamp": timestamp}


def _render(logger: "WrappedLogger", method: str, event: "EventDict") -> bytes:
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    try:
        return orjson.dumps(event, default=_as_text)
    except TypeError:
        pass
    try:
        # Text from outside may have a lone surrogate or a giant number: json escapes it instead of losing the line.
        return json.dumps(event, default=_as_text).encode()
    except Exception:
        # A value of a handler's, such as a list that contains itself.
        return json.dumps({name: _as_text(value) for name, value in event.items()}).encode()


def _for_terminal(logger: "WrappedLogger", method: str, event: "EventDict") -> "EventDict":
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    plain = (bool, int, float, type(None))
    return {name: value if isinstance(value, plain) else harmless(_as_text(value)) for name, value in event.items()}


def _as_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        # A handler's object must not cost a line, and no line may raise.
        return f"({type(value).__name__} without a text)"


def _decode(_: "WrappedLogger", __: str, line: Any) -> str:
    """The line as text, for the standard library's handlers."""
    return line.decode() if isinstance(line, bytes) else str(line)
