"""The product's logs in a simulated run: only the lines that the checker compares are kept; or all, as a trace."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tests.proof.checker.evidence import LogLine
from tests.proof.simulation.clock import VirtualLoop

PACKAGES = ("turnstile.",)


class Journal:
    """A logger, for all modules of the product at once."""

    def __init__(self, loop: VirtualLoop, lines: list[LogLine], *, traced: bool) -> None:
        self._loop = loop
        self._lines = lines
        self.traced = traced
        if traced:
            self.debug = self.info = self.warning = self._write

    def debug(self, event: str, *_: Any, **fields: Any) -> None:
        """Dropped."""

    def info(self, event: str, *_: Any, **fields: Any) -> None:
        if event.startswith("turn.") and "turn_id" in fields:
            self._keep(event, "info", "", fields["turn_id"])

    warning = info

    def error(self, event: str, *_: Any, **fields: Any) -> None:
        if self.traced:
            self._write(event, **fields)
        self._keep(event, "error", "", fields.get("turn_id"))

    critical = error

    def exception(self, event: str, *_: Any, **fields: Any) -> None:
        """Kept, with the traceback: there should be none."""
        text = traceback.format_exc()
        if self.traced:
            self._write(event, **fields, text=text)
        self._keep(event, "error", text, fields.get("turn_id"))

    def bind(self, **_: Any) -> "Journal":
        return self

    def _keep(self, event: str, level: str, text: str, turn_id: str | None) -> None:
        if self._loop.ended:
            return
        process = self._loop.current.process
        role, pid = (process.role, process.pid) if process is not None else ("world", 0)
        self._lines.append(LogLine(role=role, pid=pid, event=event, level=level, text=text, turn_id=turn_id))

    def _write(self, event: str, *_: Any, **fields: Any) -> None:
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        sys.stdout.write(f"{self._loop.now:10.4f} {self._loop.current.name:<20} {event} {told}\n")
        if event.startswith("turn.") and "turn_id" in fields:
            self._keep(event, "info", "", fields["turn_id"])


@contextmanager
def journal(log: Journal) -> Iterator[None]:
    """While it lasts, every module of the product logs there."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if not name.startswith(PACKAGES):
                continue
            if hasattr(module, "log") and not isinstance(module.log, type(sys)):
                stack.enter_context(patch.object(module, "log", log))
        yield
