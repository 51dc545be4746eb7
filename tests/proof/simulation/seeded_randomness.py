"""Time and randomness come from the seed: what the product reads from outside the program.

The modules of the standard library are patched for the run of one life, because the product asks them by name. A
process's own clocks differ: the monotonic one begins anywhere, the wall clock may be set wrong.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any
from unittest.mock import patch

from tests.proof.simulation.clock import VirtualLoop
from turnstile.submit import turn_request
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_run import SessionRun

NANOSECONDS = 1_000_000_000


_REAL_MONOTONIC = time.monotonic


def _ask_the_time() -> float:
    return time.monotonic()


def _patch_default_factories() -> None:
    """`field(default_factory=time.monotonic)` has bound the real clock when its class was made."""
    for kind in (ReceivedMessage, HeartbeatEntry, SessionRun):
        cells: Any = kind.__init__.__closure__  # type: ignore[misc]
        bound = [cell for cell in cells if cell.cell_contents is _REAL_MONOTONIC]
        if not bound:
            raise AssertionError(f"{kind.__name__} takes its time from elsewhere by now")
        for cell in bound:
            cell.cell_contents = _ask_the_time


_patch_default_factories()


@contextmanager
def seeded(seed: int, loop: VirtualLoop) -> Iterator[None]:
    """While it lasts, time is the loop's and randomness is the seed's."""
    bytes_ = Random(f"bytes {seed}")
    before = random.getstate()

    def monotonic() -> float:
        process = loop.current.process
        return loop.now if process is None else loop.now + float(process.monotonic_base)

    def wall() -> float:
        process = loop.current.process
        return loop.now if process is None else loop.now + float(process.clock_shift)

    with ExitStack() as stack:
        for target, name, value in (
            (time, "monotonic", monotonic),
            (time, "time", wall),
            (time, "time_ns", lambda: int(wall() * NANOSECONDS)),
            (os, "urandom", bytes_.randbytes),
            (random, "_urandom", bytes_.randbytes),
            # Virtual time begins in 1970, and clients choose an `execute_at` in it.
            (turn_request, "EARLIEST", datetime.fromtimestamp(0, UTC)),
        ):
            stack.enter_context(patch.object(target, name, value))
        random.seed(f"product {seed}")
        try:
            yield
        finally:
            random.setstate(before)
