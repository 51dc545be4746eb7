"""One detached process in its own session, which later commands can find, stop and kill."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from turnstile.errors import TurnstileError

_LOG_LIMIT_BYTES = 5_000_000
_POLL_SECONDS = 0.01

# Slim images have no `ps`; systems without /proc always have it.
_PROC = Path("/proc/self/stat")
_PS = "/bin/ps"

# This process must wait for its own children when they end: otherwise they stay as zombies and look alive.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


class LocalStackError(TurnstileError):
    """The stack can't do the request. The message contains advice."""


@dataclass(frozen=True)
class Account:
    """The operating system account of a process."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class _Record:
    pid: int
    birth: str
    port: int


def birth_of(pid: int) -> str | None:
    """A text that distinguishes this process from all others with the same pid; None if there is no such process.

    The system reuses pids, especially after a reboot. Start times by the wall clock move when the clock is set, so on Linux the
    text is the boot id and the start in ticks since boot.
    """
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        _children.pop(pid, None)
    if _PROC.exists():
        try:
            # The second field is the program's name in parentheses. It may itself contain spaces and parentheses.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        if fields[0] in "ZX":
            if child is not None:
                child.wait()  # it ended after the poll above
            return None
        return f"{boot}/{fields[19]}"
    answer = subprocess.run(  # noqa: S603 - fixed arguments
        [_PS, "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(answer) < 2 or answer[0].startswith("Z") else answer[1].strip()


def command_line_of(pid: int) -> str:
    """The command line of a process, separated by spaces; empty if there is no such process."""
    if _PROC.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""
    return subprocess.run(  # noqa: S603 - fixed arguments
        [_PS, "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()


def write_whole(file: Path, text: str, mode: int = 0o600) -> None:
    """Replaces the file atomically, so that readers never see a partial file, even after a crash."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    draft.replace(file)


@contextlib.contextmanager
def exclusive(lock_file: Path, timeout: float = 120.0) -> Iterator[None]:
    """Locks the file against other processes and threads during the block. Raises LocalStackError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError as error:
            raise LocalStackError(
                f"{lock_file.parent} belongs to another user: go on as that one, or set TURNSTILE_HOME elsewhere"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = False
            else:
                # A purge removes the file while other commands wait for it. Their lock would then be on a deleted file.
                held = _is_still(lock_file, descriptor)
            if held:
                yield
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise LocalStackError(
                f"another command has been holding {lock_file} for {timeout:.0f} s: wait for it or end it"
            )
        time.sleep(_POLL_SECONDS)


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def run(
    command: Sequence[str], *, account: Account | None, timeout: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """Runs a short command to its end under the account. Raises OSError if that account may not execute it."""
    return subprocess.run(  # noqa: S603 - the commands are ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
        # The account may have no access to the caller's folder.
        cwd="/",
        env=plain_environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
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


class DetachedProcess:
    """A process that outlives its parent. Its pid file identifies it, and its log file has its output."""

    def __init__(self, pid_file: Path, log_file: Path) -> None:
        self._pid_file = pid_file
        self._log_file = log_file
        self._log_start = 0

    def pid(self) -> int | None:
        """The pid if the process is alive; it may not respond yet."""
        record = self._recorded()
        return record.pid if record and birth_of(record.pid) == record.birth else None

    def recorded_port(self) -> int | None:
        """The port of the last start."""
        record = self._recorded()
        return record.port if record else None

    def start(
        self,
        command: Sequence[str],
        *,
        port: int,
        environment: Mapping[str, str],
        folder: Path,
        account: Account | None,
    ) -> None:
        """Starts the process in its own session, without open files of the caller. Appends its output to the log."""
        # Readable only by its owner: a server's log quotes requests.
        with open(self._log_file, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            if log.tell() > _LOG_LIMIT_BYTES:
                log.truncate(0)
            self._log_start = log.seek(0, os.SEEK_END)
            try:
                child = subprocess.Popen(  # noqa: S603 - the commands are ours
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=dict(environment),
                    start_new_session=True,
                    user=account.uid if account else None,
                    group=account.gid if account else None,
                    extra_groups=[] if account else None,
                )
            except OSError as error:
                who = f" as {account.name}" if account else ""
                raise LocalStackError(f"cannot start {command[0]}{who}: {error}") from error
        try:
            _children[child.pid] = child
            # A process that has already ended counts as started: the caller then sees that it is dead and reads the log.
            record = _Record(child.pid, birth_of(child.pid) or "", port)
            write_whole(self._pid_file, json.dumps(asdict(record)))
        except BaseException:
            child.kill()  # a process without a pid file would never be found again
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

    def log_tail(self, lines: int = 12) -> str:
        """The last lines of the log since the last start."""
        try:
            with self._log_file.open("rb") as log:
                log.seek(self._log_start)
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _recorded(self) -> _Record | None:
        try:
            found = json.loads(self._pid_file.read_text())
            return _Record(int(found["pid"]), str(found["birth"]), int(found["port"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
