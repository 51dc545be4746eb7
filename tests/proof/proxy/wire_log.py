"""`wire.jsonl`: every message in every SQS call, as it passed the proxy."""

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from tests.proof.checker.evidence import WireCall

_NAMES = [one.name for one in fields(WireCall)]


class WireLog:
    """Appends records, each with a write of its own."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, calls: Sequence[WireCall], *, answered: bool) -> None:
        """Notes calls, with whether the client got the response."""
        for call in calls:
            values = {name: getattr(call, name) for name in _NAMES} | {"answered": answered}
            self._file.write(json.dumps(values, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()
