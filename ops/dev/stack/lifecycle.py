"""Shared by the three services: start until the service responds, stop, restart on the same port, status."""

import importlib.util
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from turnstile.ops.dev.stack.ports import LOOPBACK, choose_free, is_free
from turnstile.ops.dev.stack.processes import Account, DetachedProcess, LocalStackError, exclusive, plain_environment
from turnstile.ops.dev.stack.run_as import Quarters

_START_SECONDS = 45.0
_PORT_SECONDS = 3.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ServiceStatus:
    """The status of a service. `running` means that it responds; if only `pid` is set, it hangs or is still starting."""

    name: str
    running: bool
    address: str
    pid: int | None
    version: str | None


@dataclass(frozen=True)
class Launch:
    """How to start a service's program. `account` None is the caller's account; `environment` is complete, nothing is
    inherited."""

    command: Sequence[str]
    folder: Path
    account: Account | None = None
    environment: Mapping[str, str] = field(default_factory=plain_environment)


def package_folder(package: str) -> Path:
    """The folder of an installed package of the extra `local`, found without importing it. Raises LocalStackError."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LocalStackError(
            f"the package {package} of the local stack is not installed: pip install 'turnstile[local]'"
        )
    return Path(next(iter(spec.submodule_search_locations)))


class Service(ABC):
    """One service of the stack. All methods block. A lock file makes start, stop and restart exclusive, also between
    processes."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    clean_stop: ClassVar[signal.Signals] = signal.SIGTERM
    immediate_stop: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, home: Path, quarters: Quarters, port: int, *, durable: bool) -> None:
        self.home = home
        self.port = port
        self.durable = durable
        self.quarters = quarters
        self._lock_file = home / f"{self.name}.lock"
        self.process = DetachedProcess(home / f"{self.name}.pid", home / f"{self.name}.log")

    @abstractmethod
    def prepare(self) -> Launch:
        """Prepares the service, and returns how to start it on the current port. Called while it is down."""

    @abstractmethod
    def answer(self) -> str | None:
        """The version, if the service responds to a real request and belongs to this stack; else None.

        Another program or another stack may listen on the same port.
        """

    def after_start(self) -> None:  # noqa: B027 - most services need nothing here
        """Called once the newly started service responds."""

    def may_start_again(self) -> bool:
        """Whether a failure right after the start is temporary, so that another start may succeed."""
        return False

    @property
    def address(self) -> str:
        return f"{self.scheme}://{LOOPBACK}:{self.port}"

    def status(self) -> ServiceStatus:
        """The current status. Takes a few milliseconds, or about two seconds if the service hangs."""
        pid = self.process.pid()
        version = self.answer() if pid is not None and self.process.recorded_port() == self.port else None
        return ServiceStatus(self.name, version is not None, self.address, pid, version)

    def start(self, *, may_move: bool = False) -> None:
        """Returns once the service responds, at once if it already runs. With `may_move`, uses another port if its own is
        taken. Raises LocalStackError with the end of its log if it does not respond within 45 seconds."""
        with exclusive(self._lock_file):
            self._start(may_move=may_move)

    def stop(self, *, immediate: bool = False) -> bool:
        """Stops the service and waits for its end. True if it was running. `immediate` is like a crash, without cleanup."""
        with exclusive(self._lock_file):
            return self._stop(immediate=immediate)

    def restart(self, *, immediate: bool = False) -> None:
        """Stops the service and starts it on the same port."""
        with exclusive(self._lock_file):
            self._stop(immediate=immediate)
            self._start(may_move=False)

    def _start(self, *, may_move: bool) -> None:
        deadline = time.monotonic() + _START_SECONDS
        if self.process.pid() is not None and self.process.recorded_port() != self.port:
            self._stop(immediate=False)
        fresh = False
        while time.monotonic() < deadline:
            if self.process.pid() is None:
                self._claim_port(may_move=may_move)
                launch = self.prepare()
                self.process.start(
                    launch.command,
                    port=self.port,
                    environment=launch.environment,
                    folder=launch.folder,
                    account=launch.account,
                )
                fresh = True
            while self.process.pid() is not None and time.monotonic() < deadline:
                if self.answer() is not None:
                    if fresh:
                        self.after_start()
                    return
                time.sleep(_POLL_SECONDS)
            if self.process.pid() is None and is_free(self.port) and not self.may_start_again():
                raise LocalStackError(self._with_log(f"{self.name} ended while starting"))
        raise LocalStackError(
            self._with_log(f"{self.name} does not answer at {self.address}: `turnstile local down`, then up")
        )

    def _claim_port(self, *, may_move: bool) -> None:
        deadline = time.monotonic() + _PORT_SECONDS
        while not is_free(self.port):
            if may_move:
                self.port = choose_free()
            elif time.monotonic() > deadline:
                raise LocalStackError(
                    f"port {self.port} of {self.name} is taken by another program: end that, or `turnstile local down` "
                    "and up again on other ports"
                )
            else:
                time.sleep(_POLL_SECONDS)

    def _stop(self, *, immediate: bool) -> bool:
        if self.process.pid() is None:
            return False
        steps = [(self.immediate_stop, 20.0), (signal.SIGKILL, 20.0)]
        if not immediate:
            steps.insert(0, (self.clean_stop, 15.0))
        for number, patience in steps:
            self.process.signal(number)
            if self.process.wait_until_gone(patience):
                return True
        raise LocalStackError(f"{self.name} (pid {self.process.pid()}) does not end, even when killed")

    def _with_log(self, message: str) -> str:
        tail = self.process.log_tail()
        return f"{message}; the end of {self.home / self.name}.log:\n{tail}" if tail else message
