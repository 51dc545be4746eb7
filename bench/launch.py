"""A process of a benchmark: started, waited for, ended with all its children."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.accounting import Tree

LOOK_SECONDS = 0.01
TERM_SECONDS = 10.0
"""Longer than a worker takes that exports its last spans."""


class NotMeasuredError(Exception):
    """The process did not do what was to be measured; the message says what it did instead."""


def end_on_sigterm() -> None:
    """Lets SIGTERM end a command by way of its `finally`: servers and processes are to end with it, also in a time-out."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@dataclass(slots=True)
class Launched:
    """A process that runs, or has ended by itself."""

    name: str
    process: "subprocess.Popen[bytes]"
    tree: Tree
    log: Path

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came true in that time. Raises NotMeasuredError when the process has ended instead."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise NotMeasuredError(f"{self.name} ended by itself: {self._last_line()}")
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def require(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Waits; raises NotMeasuredError if it does not come true."""
        if not self.wait_for(condition, seconds):
            raise NotMeasuredError(f"{self.name}: not {what} within {seconds:g} s: {self._last_line()}")

    def _last_line(self) -> str:
        return self.log.read_text(errors="replace").strip().rpartition("\n")[2]


@contextmanager
def launch(
    name: str, command: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Launched]:
    """Runs the command in `folder` for as long as the block, with its output in `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    tree = Tree.of(process.pid)
    try:
        yield Launched(name, process, tree, log)
    finally:
        _end(process, tree)


def _end(process: "subprocess.Popen[bytes]", tree: Tree) -> None:
    members = tree.members()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for member in members:
            with suppress(psutil.Error):
                member.send_signal(number)
        # Its parent must see its end, or it stays a zombie.
        process.poll()
        psutil.wait_procs(members, timeout=TERM_SECONDS)
    process.wait()
