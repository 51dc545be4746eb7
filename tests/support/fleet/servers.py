"""One redis-server of a test's own, in the foreground: it ends when the test says so, and at the latest with it."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import redis

from tests.support.probes import wait_until
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.ports import LOOPBACK, choose_free, is_free
from turnstile.dev.stack.redis import Redis
from turnstile.dev.stack.run_as import choose

BUS = 10_000
"""What a node of a cluster adds to its port, for the port where it speaks to the others."""


def program_of(stack: Stack) -> str:
    """The redis-server of the embedded stack, whatever the tests run on: a fleet is processes of this machine."""
    return str(Redis(stack.home, choose(stack.home), stack.redis.port, password="").find_program())


def choose_ports(count: int) -> list[int]:
    """Free ports whose bus ports are free as well, and below those that clients are given."""
    ports: list[int] = []
    while len(ports) < count:
        port = choose_free()
        if port < 32_768 - BUS and port not in ports and is_free(port + BUS):
            ports.append(port)
    return ports


class Server:
    """A redis-server, or with `sentinel` one of its watchmen."""

    def __init__(self, program: str, port: int, settings: dict[str, str], *, sentinel: str = "") -> None:
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="turnstile-fleet-"))
        given = {"port": str(port), "bind": LOOPBACK, "dir": str(self.folder), "save": '""', **settings}
        if sentinel:
            given = {"port": str(port), "bind": LOOPBACK, "dir": str(self.folder)}
        # Sentinels and nodes write down what they learn.
        written = self.folder / "redis.conf"
        written.write_text("".join(f"{name} {value}\n" for name, value in given.items()) + sentinel)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, str(written), *(["--sentinel"] if sentinel else [])], stdout=log, stderr=log
            )
        self.client: Any = redis.Redis(host=LOOPBACK, port=port, socket_timeout=2, decode_responses=True)

    def wait(self) -> None:
        wait_until(self._answers)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def kill(self) -> None:
        """Ends it as a crash would."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends it, if it has not ended, and leaves nothing behind."""
        self.kill()
        self.client.close()
        shutil.rmtree(self.folder, ignore_errors=True)
