"""The processes of the demo: one API and two workers; one worker is killed and replaced."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


class Troupe:
    """Starts `turnstile` commands as separate processes. Their logs go to files in `folder`."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Starts `turnstile <arguments>` under a name."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "turnstile.ops.cli", *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Only the demo receives Ctrl-C, and then stops the processes in order.
                start_new_session=True,
            )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end and returns its output."""
        return subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "turnstile.ops.cli", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def kill(self, name: str) -> int:
        """Kills the process with SIGKILL; returns its pid."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process.pid

    def fallen(self) -> list[str]:
        """The names of processes that ended by themselves."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def last_words(self, name: str) -> str:
        """The last five lines of a process's log."""
        return "\n".join((self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-5:])

    def stop(self, names: Sequence[str] = ()) -> None:
        """Sends SIGTERM to the named processes, or to all; then SIGKILL to each that does not end within ten seconds."""
        chosen = {name: self._processes[name] for name in names or list(self._processes)}
        for process in chosen.values():
            process.terminate()
        for name, process in chosen.items():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            del self._processes[name]
