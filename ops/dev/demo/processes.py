"""The processes of the demo: one API and two workers, one of which is killed and replaced."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


class Troupe:
    """Starts `turnstile` commands as processes of their own; their logs go to files in `folder`."""

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
                # Ctrl-C goes to the demo alone, which stops them in order.
                start_new_session=True,
            )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end and returns what it said."""
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
        """kill -9; returns the pid it had."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process.pid

    def fallen(self) -> list[str]:
        """Who ended without being told to."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def last_words(self, name: str) -> str:
        """The end of somebody's log."""
        return "\n".join((self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-5:])

    def stop(self, names: Sequence[str] = ()) -> None:
        """SIGTERM to all, and SIGKILL to whoever is still there after ten seconds."""
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
