"""`wire.jsonl`: every message in every SQS call, as it passed the proxy."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from tests.proof.checker.evidence import WireCall

FLUSH_SECONDS = 0.2
_NAMES = [one.name for one in fields(WireCall)]


class WireLog:
    """Appends records; a file that lags behind by `FLUSH_SECONDS` at most, and not at all once it is closed."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, calls: Sequence[WireCall], *, answered: bool) -> None:
        """Notes calls, with whether the client got the response."""
        for call in calls:
            values = {name: getattr(call, name) for name in _NAMES} | {"answered": answered}
            self._lines.append(json.dumps(values, separators=(",", ":")))
        if self._lines and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        self._timer = None
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._file.close()
