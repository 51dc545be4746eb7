"""Evidence files: one for each kind, one JSON line for each record."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tests.proof.checker.evidence import FILES

NAMES = {kind: name for name, kind in FILES.items()}


def now() -> float:
    """The machine's clock, which all evidence goes by, also in a process whose clock is shifted."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Journal:
    """Writes the records that the harness itself makes, each at once. `folder` is the run's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, IO[str]] = {}

    def write(self, record: Any) -> None:
        """Appends a record of one of the kinds of evidence to its file."""
        name = NAMES[type(record)]
        if name not in self._files:
            self._files[name] = (self.folder / f"{name}.jsonl").open("a", buffering=1)
        self._files[name].write(json.dumps(asdict(record), default=str) + "\n")

    def close(self) -> None:
        for file in self._files.values():
            file.close()
