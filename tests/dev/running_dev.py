"""`turnstile dev` as a process in a project of its own, its messages in a file."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.probes import wait_until
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.stack import LocalStack

SECONDS = 60.0

AGENT = """
import asyncio
from pathlib import Path

from turnstile import handler


@handler
async def respond(turn, ctx):
    if turn.input == "slow":
        with Path("begun").open("a") as begun:
            begun.write("x")
        while not Path("gate").exists():
            await asyncio.sleep(0.05)
    if turn.input == "raise":
        raise LookupError("no customer of this name")
    return "{word}"
"""


class RunningDev:
    """`turnstile dev` in a folder that has the project."""

    def __init__(self, stack: LocalStack, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.port = choose_free()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = stack.environment()["TURNSTILE_API_KEY"]
        self._mark = str(folder)
        self.messages_file = folder / "messages.log"
        plain = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTILE_")}
        with self.messages_file.open("wb") as messages:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "turnstile.ops.main",
                    "dev",
                    "--home",
                    str(stack.home),
                    "--port",
                    str(self.port),
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env={**plain, "STARTED_BY": self._mark, **environment},
                # A shell without job control starts what it runs in the background with SIGINT ignored, and that is inherited.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
        headers = {"Authorization": f"Bearer {self.key}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=SECONDS)

    def write(self, code: str) -> None:
        (self.folder / "agent.py").write_text(code)

    def messages(self) -> str:
        return self.messages_file.read_text()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.messages()
        return "Ctrl-C" in self.messages()

    def worker(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/dev/worker").json()
        return found

    def submit(self, session: str, text: str, wait_seconds: int = 0) -> dict[str, Any]:
        answer = self.client.post(
            f"/v1/sessions/{session}/turns", json={"input": text}, headers={"Prefer": f"wait={wait_seconds}"}
        )
        assert answer.is_success, answer.text
        turn: dict[str, Any] = answer.json()
        return turn

    def ask(self, session: str, text: str = "Good morning") -> object:
        """The reply."""
        turn = self.submit(session, text, wait_seconds=int(SECONDS))
        assert turn["status"] == "SUCCEEDED", (turn, self.messages())
        return turn["output"]

    def read(self, turn: dict[str, Any], wait_seconds: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/v1/turns/{turn['id']}", params={"wait": wait_seconds}).json()
        return found

    def begin_slow(self, session: str) -> dict[str, Any]:
        """A turn that runs until `open_gate`."""
        (self.folder / "gate").unlink(missing_ok=True)
        turn = self.submit(session, "slow")
        wait_until(lambda: self.read(turn)["status"] == "RUNNING", within=SECONDS)
        return turn

    def times_begun(self) -> int:
        """How often a slow turn has begun."""
        return len((self.folder / "begun").read_text())

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def left_behind(self) -> list[psutil.Process]:
        """What it has started and still runs, except for the stack."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = process.environ().get("STARTED_BY") == self._mark
                is_stack = re.search("postgres|redis|ministack", " ".join(process.cmdline()))
                found += [process] if ours and not is_stack else []
        return found

    def close(self) -> None:
        """Kills what is left of it."""
        self.client.close()
        for process in self.left_behind():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
