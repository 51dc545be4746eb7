"""`turnstile` commands as child processes."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

KILL_AFTER_SECONDS = 20.0
"""Time from the end of the workers' grace period until SIGKILL."""
_POLL_SECONDS = 0.1


class ChildProcesses:
    """Starts `turnstile` commands, whose output goes to log files in `folder`. `grace_seconds` is that of their settings."""

    def __init__(self, environment: Mapping[str, str], grace_seconds: float, folder: Path) -> None:
        self._environment = environment
        self._grace_seconds = grace_seconds
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Starts `turnstile <arguments>` under a name."""
        with self.log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "turnstile.ops.main", *arguments],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The terminal sends Ctrl-C to a whole process group: a child would get two signals, and the second ends its grace
                # period.
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self._folder / f"{name}.log"

    def kill(self, name: str) -> int:
        """Kills the process with SIGKILL; returns its pid."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process.pid

    def ended(self) -> dict[str, int]:
        """The names and exit codes of the processes that ended by themselves."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def stop(self) -> None:
        """Stops all: SIGTERM, and SIGKILL only KILL_AFTER_SECONDS after the grace period, or on a KeyboardInterrupt."""
        deadline = time.monotonic() + self._grace_seconds + KILL_AFTER_SECONDS
        with contextlib.suppress(KeyboardInterrupt):
            for process in self._processes.values():
                process.terminate()
            while self._running() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        for process in self._running():
            process.kill()
            process.wait()
        self._processes.clear()

    def _running(self) -> "list[subprocess.Popen[bytes]]":
        return [process for process in self._processes.values() if process.poll() is None]
