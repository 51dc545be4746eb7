"""`turnstile` commands as child processes."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

KILL_AFTER_SECONDS = 20.0
"""Time from the end of the workers' grace period until SIGKILL."""
_POLL_SECONDS = 0.1


class ChildProcesses:
    """Starts `turnstile` commands. With `folder`, their output goes to log files in it, otherwise to the terminal.

    `grace_seconds` is that of their settings.
    """

    def __init__(self, environment: Mapping[str, str], grace_seconds: float, folder: Path | None = None) -> None:
        self._environment = environment
        self._grace_seconds = grace_seconds
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Starts `turnstile <arguments>` under a name."""
        with contextlib.ExitStack() as opened:
            log = opened.enter_context(self.log(name).open("wb")) if self._folder else None
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
        assert self._folder is not None  # noqa: S101 - only callers that gave one ask
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

    def stop(self, signals: "SimpleQueue[int] | None" = None) -> bool:
        """Stops all: SIGTERM, and again for each item of `signals`, with which a worker hands back its turns. SIGKILL only
        KILL_AFTER_SECONDS after the grace period, or on a KeyboardInterrupt. False if one was killed."""
        deadline = time.monotonic() + self._grace_seconds + KILL_AFTER_SECONDS
        with contextlib.suppress(KeyboardInterrupt):
            self._terminate()
            while self._running() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                if signals is not None and not signals.empty():
                    signals.get()
                    self._terminate()
        killed = self._running()
        for process in killed:
            process.kill()
            process.wait()
        self._processes.clear()
        return not killed

    def _running(self) -> "list[subprocess.Popen[bytes]]":
        return [process for process in self._processes.values() if process.poll() is None]

    def _terminate(self) -> None:
        for process in self._processes.values():
            process.terminate()
