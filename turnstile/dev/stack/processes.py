"""One detached process in its own session, which later commands can find, stop and kill."""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd
from typing import IO

from turnstile.errors import TurnstileError

_POLL_SECONDS = 0.01
_LOCK_SECONDS = 120.0
_PID_LOCK_SECONDS = 5.0

# The children of this process, which reaps them: Postgres takes a zombie for a running server.
_children: list["subprocess.Popen[bytes]"] = []


class LocalStackError(TurnstileError):
    """The stack can't do the request. The message contains advice."""


@contextlib.contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Locks the file against other processes during the block. Raises LocalStackError if one of them has locked it for 120 s."""
    with _lock_current(lock_file) as file:
        # For the error message of the others, which is not worth a failure.
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())
        yield


def _lock_current(lock_file: Path) -> IO[str]:
    while True:
        try:
            lock_file.parent.mkdir(parents=True, exist_ok=True)
            check_owner(lock_file.parent)
            file = open(lock_file, "a+", opener=private)  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise LocalStackError(
                f"cannot write in {lock_file.parent} ({error.strerror}): set TURNSTILE_HOME to another folder"
            ) from error
        if not _lock(file, _LOCK_SECONDS):
            with file:
                file.seek(0)
                pid = file.read() or "unknown"
            raise LocalStackError(
                f"another command (pid {pid}) has been starting or stopping the stack at {lock_file.parent} for "
                f"{_LOCK_SECONDS:g} s: end it, then run this again"
            )
        # `down --purge` removes the file: then this lock does not exclude those who open a new one.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), lock_file.stat()):
                return file
        file.close()


def check_owner(folder: Path) -> None:
    """Raises LocalStackError for a folder of another account, whose links and whose state must not be believed."""
    with contextlib.suppress(FileNotFoundError):
        if folder.stat().st_uid != os.geteuid():
            raise LocalStackError(f"{folder} belongs to another account: set TURNSTILE_HOME to a folder of your own")


def _lock(file: IO[str], seconds: float) -> bool:
    """Locks the file exclusively. False if others have locked it for all these seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def run(command: Sequence[str], *, account: struct_passwd | None, says: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs a short command, which reads `says`, to its end under the account. Raises OSError if that may not execute it."""
    return subprocess.run(  # noqa: S603 - the commands are ours
        command,
        input=says,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60.0,
        # The account may have no access to the caller's folder.
        cwd="/",
        env=plain_environment(),
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )


def plain_environment(**more: str) -> dict[str, str]:
    """The complete environment of a child process. It inherits nothing from the user's shell: proxies, PG* and AWS* variables,
    locales and Python settings would change the behaviour of the servers."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "NO_PROXY": "*",
        "no_proxy": "*",
        **more,
    }


@dataclass(frozen=True)
class Launch:
    """How to start a program. `account` None is the caller's account; `environment` is complete, nothing is inherited."""

    command: Sequence[str]
    folder: Path
    account: struct_passwd | None = None
    environment: Mapping[str, str] = field(default_factory=plain_environment)


class DetachedProcess:
    """A process that outlives its parent. Its log file has its output since its last start.

    Its pid file is locked for as long as the process, or a child that it has forked, is alive: a pid alone may be another
    process's by now.
    """

    def __init__(self, pid_file: Path, log_file: Path) -> None:
        self._pid_file = pid_file
        self._log_file = log_file

    def pid(self) -> int | None:
        """The pid if the process is alive; it may not respond yet. None also while another command is starting it."""
        for child in _children:
            child.poll()
        try:
            with self._pid_file.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    pid = file.read()
                    return int(pid) if pid else None
        except FileNotFoundError:
            pass
        return None

    def start(self, launch: Launch) -> None:
        """Starts the process in its own session, without open files of the caller."""
        # Readable only by their owner: a server's log quotes requests.
        with open(self._pid_file, "w", opener=private) as locked, open(self._log_file, "wb", opener=private) as log:
            if not _lock(locked, _PID_LOCK_SECONDS):
                # Its starter was killed before it could write the pid.
                raise LocalStackError(
                    f"an unknown process has locked {self._pid_file}: end it (`fuser {self._pid_file}` shows its pid)"
                )
            try:
                child = subprocess.Popen(  # noqa: S603 - the commands are ours
                    launch.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=launch.folder,
                    env=dict(launch.environment),
                    start_new_session=True,
                    # The child never unlocks it, so it is locked until the child has ended.
                    pass_fds=[locked.fileno()],
                    user=launch.account.pw_uid if launch.account else None,
                    group=launch.account.pw_gid if launch.account else None,
                    extra_groups=[] if launch.account else None,
                )
            except OSError as error:
                who = f" as {launch.account.pw_name}" if launch.account else ""
                raise LocalStackError(f"cannot start {launch.command[0]}{who}: {error}") from error
            _children.append(child)
            try:
                os.write(locked.fileno(), str(child.pid).encode())
            except BaseException:
                # Without its pid, no command could find or stop it.
                child.kill()
                child.wait()
                raise

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if the process is alive."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_until_gone(self, timeout: float) -> bool:
        """Returns True once the process has ended, False if it is still alive after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.pid() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def log_tail(self) -> str:
        """The last lines of the log since the last start."""
        try:
            return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-12:])
        except OSError:
            return ""


def private(path: str, flags: int) -> int:
    """An `opener` for files that only their owner can read. Follows no link: it may lead to somebody else's file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
