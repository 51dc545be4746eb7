"""Shared by the three services: start until the service responds, stop, restart on the same port, status."""

import importlib.util
import signal
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from turnstile import distribution
from turnstile.dev.stack.ports import LOOPBACK, is_free
from turnstile.dev.stack.processes import DetachedProcess, Launch, LocalStackError
from turnstile.dev.stack.run_as import RunAs

_START_SECONDS = 45.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ServiceStatus:
    """The status of a service. `running` means that it responds; if only `pid` is set, it hangs or is still starting."""

    name: str
    running: bool
    address: str
    pid: int | None
    version: str | None


def package_folder(package: str) -> Path:
    """The folder of an installed package of the extra `local`, found without importing it. Raises LocalStackError."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LocalStackError(
            f"the package {package} of the local stack is not installed: {distribution.install('local')}"
        )
    return Path(next(iter(spec.submodule_search_locations)))


class Service(ABC):
    """One service of the stack. All methods block."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    clean_stop: ClassVar[signal.Signals] = signal.SIGTERM
    immediate_stop: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, home: Path, run_as: RunAs, port: int) -> None:
        self.home = home
        self.port = port
        self.run_as = run_as
        self.process = DetachedProcess(home / f"{self.name}.pid", home / f"{self.name}.log")

    @abstractmethod
    def prepare(self) -> Launch:
        """Prepares the service, and returns how to start it on the current port. Called while it is down."""

    @abstractmethod
    def answer(self) -> str | None:
        """The version, if the service responds to a real request; otherwise None."""

    @property
    def address(self) -> str:
        return f"{self.scheme}://{LOOPBACK}:{self.port}"

    def status(self) -> ServiceStatus:
        """The current status. Takes a few milliseconds, or a few seconds if the service hangs."""
        pid = self.process.pid()
        version = self.answer() if pid is not None else None
        return ServiceStatus(self.name, version is not None, self.address, pid, version)

    def start(self) -> None:
        """Waits until the service responds. Returns at once if it already runs. Raises LocalStackError with the end of
        its log if it ends, or does not respond within 45 seconds."""
        if self.process.pid() is None:
            if not is_free(self.port):
                raise LocalStackError(
                    f"port {self.port} of {self.name} is taken by another program: stop it, or run "
                    "`turnstile local down` and start again on other ports"
                )
            self.process.start(self.prepare())
        deadline = time.monotonic() + _START_SECONDS
        while self.answer() is None:
            if self.process.pid() is None:
                raise LocalStackError(self._with_log(f"{self.name} ended while starting"))
            if time.monotonic() > deadline:
                advice = "`turnstile local down`, then up"
                raise LocalStackError(self._with_log(f"{self.name} does not answer at {self.address}: {advice}"))
            time.sleep(_POLL_SECONDS)

    def stop(self, *, immediate: bool = False) -> bool:
        """Stops the service and waits for its end. True if it was running. `immediate` is like a crash, without cleanup."""
        if self.process.pid() is None:
            return False
        for number in (self.immediate_stop if immediate else self.clean_stop, self.immediate_stop, signal.SIGKILL):
            self.process.signal(number)
            if self.process.wait_until_gone(_STOP_SECONDS):
                self._wait_for_port()
                return True
        raise LocalStackError(f"{self.name} (pid {self.process.pid()}) does not end, even when killed")

    def _wait_for_port(self) -> None:
        # A busy kernel releases a killed process's lock, by which it counts as alive, before it closes its sockets.
        deadline = time.monotonic() + _STOP_SECONDS
        while not is_free(self.port) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def restart(self, *, immediate: bool = False) -> None:
        """Stops the service and starts it on the same port."""
        self.stop(immediate=immediate)
        self.start()

    def _with_log(self, message: str) -> str:
        tail = self.process.log_tail()
        return f"{message}; the end of {self.home / self.name}.log:\n{tail}" if tail else message
