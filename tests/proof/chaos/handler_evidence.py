"""The evidence that handlers write: one `write` a line, so that a kill at any instant leaves whole lines.

It needs nothing that the nemesis takes away (no Postgres, no Redis). Its times are the machine's clock, also in a process
whose clock is shifted.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.proof.chaos.journal import now
from turnstile import Context, Turn

RUNS = "CHAOS_RUNS_FILE"
"""Names the file of the handlers' runs; their other evidence goes into the same folder."""


def record(turn: Turn, ctx: Context, what: str, **more: Any) -> None:
    line = {
        "at": now(),
        "what": what,
        "turn_id": str(turn.id),
        "session": turn.session_id,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "pid": os.getpid(),
        **more,
    }
    leave("runs", line)


def leave(name: str, line: Mapping[str, Any]) -> None:
    """Appends a line to `<name>.jsonl`."""
    path = Path(os.environ[RUNS]).with_name(f"{name}.jsonl")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)
