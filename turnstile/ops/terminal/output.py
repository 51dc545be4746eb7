"""The output of commands: data on standard output (a table for people, one JSON document for programs), and
everything else on standard error. Nothing else in `ops` prints, because this module makes what users and handlers wrote
harmless to a terminal. Rich is imported only where it is used, so that other commands stay fast.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import typer

from turnstile.telemetry.terminal_text import harmless

Column = str | Callable[[Any], object]
Columns = Mapping[str, Column]
"""The columns of a table: title, and the name of the row's attribute or a function of the row."""

_WHITE = re.compile(r"[\n\t]")
"""What would break a line, or move the columns after it."""

PROGRESS_EVERY_SECONDS = 10.0

_DURATIONS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def say(message: str, *, end: str = "\n") -> None:
    """Prints a line for people on standard error, without control characters."""
    typer.echo(harmless(message) + end, err=True, nl=False)


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output. On a terminal, control characters are escapes in it."""
    typer.echo(_encode(document, indent=2))


def as_json_line(document: Any) -> str:
    """One JSON document on one line, as `print_json` would print it."""
    return _encode(document)


def _encode(document: Any, indent: int | None = None) -> str:
    # Python's own escapes, for characters that the encoding does not have, are not valid JSON.
    is_narrow = not sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(document, default=_plain, ensure_ascii=is_narrow, indent=indent)
    if not _on_terminal():
        return text
    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)


def print_text(text: str = "") -> None:
    """Prints untrusted text: unchanged into a pipe, without control characters on a terminal."""
    typer.echo(harmless(text) if _on_terminal() else text)


def _on_terminal() -> bool:
    # None: the caller has closed it.
    return sys.stdout is not None and sys.stdout.isatty()


def print_table(columns: Columns, rows: Iterable[Any]) -> None:
    """Prints a table, a line for each row. A line is never folded, so that an id can be copied and found by grep."""
    # Some characters take two cells of a screen.
    from rich.cells import cell_len, set_cell_size

    values = [value_getter(column) for column in columns.values()]
    lines = [list(columns), *([_WHITE.sub(" ", cell(value(row))) for value in values] for row in rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    for place, cells in enumerate(lines):
        line = "  ".join(map(set_cell_size, cells, widths)).rstrip()
        # A pipe gets no escape sequences: `typer.echo` takes them out.
        typer.echo(line if place else typer.style(line, bold=True))


def value_getter(column: Column) -> Callable[[Any], object]:
    """The function that takes the column's value from a row."""
    return attrgetter(column) if isinstance(column, str) else column


def print_fields(fields: Mapping[str, object]) -> None:
    """Prints a line with name and value for each field; leaves out what is empty."""
    shown = {name: value for name, value in fields.items() if value is not None and value != {} and value != []}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        typer.echo(f"{name:<{width}}  {cell(value)}")


class Progress:
    """Prints how far a step is, a line on standard error every ten seconds: some steps take hours."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def say(self, line: str) -> None:
        """Prints the line if the last one was long enough ago."""
        if time.monotonic() - self._said_at >= PROGRESS_EVERY_SECONDS:
            self._said_at = time.monotonic()
            say(line)


def short_time(moment: datetime | None) -> str:
    """The time to the second in UTC; empty for None."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def short_duration(seconds: float | None) -> str:
    """Such as `23ms`, `1.4s`, `42s`, `5m`, `5m12s`, `3h07m` or `2d04h`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, name, part, part_name in _DURATIONS:
        if whole >= unit:
            rest = whole % unit // part
            return f"{whole // unit}{name}" + (f"{rest:02d}{part_name}" if rest else "")
    return f"{whole}s"


def plural(number: int, noun: str) -> str:
    """Such as `1 turn`, `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe_counts(counts: Mapping[str, int]) -> str:
    """Such as `FAILED 2, SUCCEEDED 1`, in the given order. A count without a name is left out."""
    return ", ".join(f"{name} {number}" for name, number in counts.items() if name)


def describe_error(error_class: str | None, error: str | None) -> str:
    """Class and first line of an error, or of the reason of a snooze; empty if there is none."""
    return ": ".join(filter(None, (error_class, shortened(error))))


def shortened(text: str | None, characters: int = 60) -> str:
    """The first line, cut to `characters` for a table."""
    line = (text or "").partition("\n")[0]
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def cell(value: object) -> str:
    """A value as the cell of a table shows it, without control characters."""
    return harmless(_plain_cell(value))


def _plain_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return short_time(value)
    if isinstance(value, dict | list):
        return json.dumps(value, default=_plain, ensure_ascii=False)
    return str(value)


def _plain(value: Any) -> Any:
    # Rows, times, ids, statuses. Imported here: `--help` does not need it.
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)
