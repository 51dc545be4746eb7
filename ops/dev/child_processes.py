"""`turnstile` commands as child processes."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

KILL_AFTER_SECONDS = 20.0


class ChildProcesses:
    """Starts `turnstile` commands. With `folder`, their output goes to log files in it, else to the terminal."""

    def __init__(self, environment: Mapping[str, str], folder: Path | None = None) -> None:
        self._environment = environment
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Starts `turnstile <arguments>` under a name."""
        with contextlib.ExitStack() as opened:
            log = opened.enter_context(self.log(name).open("wb")) if self._folder else None
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "turnstile.ops.cli", *arguments],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The terminal sends Ctrl-C to a whole process group: a child would get two signals; the second means "at once".
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

    def stop(self) -> bool:
        """Stops all: SIGTERM, then SIGKILL after KILL_AFTER_SECONDS, or at once on Ctrl-C. False if one was killed."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + KILL_AFTER_SECONDS
        try:
            for process in self._processes.values():
                process.wait(max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for process in self._processes.values():
                process.kill()
                process.wait()
            return False
        finally:
            self._processes.clear()
        return True
