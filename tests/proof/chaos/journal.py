"""Evidence files: one for each kind, one JSON line for each record."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tests.proof.checker.evidence import FILES, Call, Fault, Life, QueuedMessage, RedisCommand, RedisKey, StreamRead
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.checker.webhook_evidence import Posted

NAMES = {kind: name for name, kind in FILES.items()}


def now() -> float:
    """The machine's clock, which all evidence goes by, also in a process whose clock is shifted."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Journal:
    """Writes the records that the harness itself makes. `folder` is the run's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, IO[str]] = {}

    def write(
        self,
        record: Call | Conversation | Fault | Life | QueuedMessage | RedisCommand | RedisKey | StreamRead | Posted,
    ) -> None:
        name = NAMES[type(record)]
        if name not in self._files:
            self._files[name] = (self.folder / f"{name}.jsonl").open("a")
        self._files[name].write(json.dumps(asdict(record), default=_plain) + "\n")

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _plain(value: Any) -> Any:
    return str(value)
