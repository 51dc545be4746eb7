"""The tests' side of the fork server: the product's processes without a second of imports for each.

Real processes with real signals and exit codes, as `subprocess.Popen` has them; only how they come to be is different. That
`turnstile worker` and `turnstile api` start from nothing as well is tested elsewhere (tests/producer/api/test_serving.py).
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.conftest import ROOT

READY_SECONDS = 60.0


class ForkServer:
    """One for a run of the tests."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.chaos.fork_server"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0,
        )  # fmt: skip
        self._codes: dict[int, int] = {}
        self._unread = b""
        self._answers: list[int] = []
        self._answer()

    def fork(self, command: str, environment: Mapping[str, str], logs: Path) -> tuple[int, Path]:
        """Starts `turnstile <command>`; its process id, and the file in `logs` that its output goes to."""
        order = {"argv": [command], "environment": dict(environment), "logs": str(logs), "role": command}
        _pipe(self._process.stdin).write(json.dumps(order).encode() + b"\n")
        pid = self._answer()
        log = logs / f"{command}-{pid}.log"
        # The process may not have come to open it yet, and a test may look at once.
        log.touch()
        return pid, log

    def exit_code(self, pid: int) -> int | None:
        """Of a process that has ended, negative for a signal; None as long as it lives."""
        while pid not in self._codes and self._read(0):
            pass
        return self._codes.get(pid)

    def close(self) -> None:
        """Ends the server, and what it has started."""
        _pipe(self._process.stdin).close()
        self._process.wait(10)
        _pipe(self._process.stdout).close()

    def _answer(self) -> int:
        while not self._answers:
            if not self._read(READY_SECONDS):
                raise TimeoutError("the fork server says nothing")
        return self._answers.pop(0)

    def _read(self, seconds: float) -> bool:
        """Hears what the server has said, within the time."""
        output = _pipe(self._process.stdout)
        if not select.select([output], [], [], seconds)[0]:
            return False
        chunk = os.read(output.fileno(), 65536)
        if not chunk:
            raise ChildProcessError("the fork server has ended")
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            match json.loads(line):
                case {"ready": pid} | {"pid": pid}:
                    self._answers.append(pid)
                case {"ended": pid, "code": code}:
                    self._codes[pid] = code
        return True


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("the fork server was started without its pipes")
    return stream
