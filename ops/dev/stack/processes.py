"""One detached process: started in a session of its own, found again by later commands, stopped, killed."""

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

# Slim images have no `ps`; systems without /proc always do.
_PROC = Path("/proc/self/stat")
_PS = "/bin/ps"

# Children of this very process must be waited for when they end, or they stay as zombies and look alive.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


class LocalStackError(TurnstileError):
    """The stack cannot do what was asked; the message says what to do about it."""


@dataclass(frozen=True)
class Account:
    """The operating system account that a process is started under."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class _Record:
    pid: int
    birth: str
    port: int


def birth_of(pid: int) -> str | None:
    """A text that tells this process from every other that had or will have its pid; None if there is no such process.

    A pid alone is recycled, after a reboot almost surely. Wall-clock start times move when the clock is set, so on
    Linux this is the boot's id and the start in ticks since boot.
    """
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        _children.pop(pid, None)
    if _PROC.exists():
        try:
            # The second field is the program's name in parentheses and may contain spaces and parentheses itself.
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
    """The command line of a process, words separated by blanks; empty if there is no such process."""
    if _PROC.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""
    return subprocess.run(  # noqa: S603 - fixed arguments
        [_PS, "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()


def write_whole(file: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file in one step, so that a reader or a crash never sees half of it."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    draft.replace(file)


@contextlib.contextmanager
def exclusive(lock_file: Path, timeout: float = 120.0) -> Iterator[None]:
    """SessionRun the lock file against other processes and threads. LocalStackError after `timeout` seconds of waiting."""
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
                # A purge removes the file while others wait for it; their lock would then be on a file nobody sees.
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
    """Run a short command to its end under the account. OSError if that account may not execute it."""
    return subprocess.run(  # noqa: S603 - the commands are ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
        # The caller's folder may be closed to the account.
        cwd="/",
        env=plain_environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def plain_environment(**more: str) -> dict[str, str]:
    """A child's whole environment. The user's own is left out on purpose: proxies, PG* and AWS* variables, locales and
    Python settings of his shell would change what the servers do."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "NO_PROXY": "*",
        "no_proxy": "*",
        **more,
    }


class DetachedProcess:
    """A process that outlives its parent. Its pid file says which it is, its log file what it said."""

    def __init__(self, pid_file: Path, log_file: Path) -> None:
        self._pid_file = pid_file
        self._log_file = log_file
        self._log_start = 0

    def pid(self) -> int | None:
        """The pid if the process is alive (it need not answer yet)."""
        record = self._recorded()
        return record.pid if record and birth_of(record.pid) == record.birth else None

    def recorded_port(self) -> int | None:
        """The port it was last started with."""
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
        """Start it in a session of its own, with no file of the caller's open, its output appended to the log."""
        # For its owner alone: a server's log quotes what it was asked.
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
            # Already gone counts as started: the caller sees it dead and reads the log.
            record = _Record(child.pid, birth_of(child.pid) or "", port)
            write_whole(self._pid_file, json.dumps(asdict(record)))
        except BaseException:
            child.kill()  # a process without a pid file would never be found again
            raise

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it is alive."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_until_gone(self, timeout: float) -> bool:
        """True as soon as it is not alive, False if it still is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.pid() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def log_tail(self, lines: int = 12) -> str:
        """The last lines it wrote since its last start."""
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
