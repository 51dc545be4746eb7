"""The evidence that handlers write: one `write` a line, so that a kill at any instant leaves whole lines.

It needs nothing that the nemesis takes away (no Postgres, no Redis). Its times are the machine's clock, also in a process
whose clock is shifted.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RUNS = "CHAOS_RUNS_FILE"
"""Names the file of the handlers' runs; other evidence of theirs goes beside it."""


def clock() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


def leave(name: str, record: Mapping[str, Any]) -> None:
    path = Path(os.environ[RUNS]).with_name(f"{name}.jsonl")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(record).encode() + b"\n")
    finally:
        os.close(descriptor)
