"""The embedded stack as a whole: started once and reused, completed if some services died, stopped cleanly.

stack = up(Path(".local"))
os.environ.update(stack.environment())
...
down(stack.home)
"""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from turnstile.ops.dev.stack import run_as as living
from turnstile.ops.dev.stack.lifecycle import Service, ServiceStatus
from turnstile.ops.dev.stack.ports import LOOPBACK, Ports, choose_free
from turnstile.ops.dev.stack.postgres import Postgres
from turnstile.ops.dev.stack.processes import LocalStackError, exclusive, write_whole
from turnstile.ops.dev.stack.redis import Redis
from turnstile.ops.dev.stack.sqs import REGION, Sqs
from turnstile.turn.message import DEFAULT_TENANT

__all__ = [
    "LocalStack",
    "LocalStackError",
    "Ports",
    "ServiceStatus",
    "down",
    "environment_of",
    "find",
    "temporary",
    "up",
]

_STATE_FILE = "stack.json"
_LOCK_FILE = "stack.lock"


@dataclass(frozen=True)
class _State:
    """State between commands, also while the stack is down, so that clients find it at the same addresses."""

    postgres: int
    redis: int
    sqs: int
    durable: bool
    api_key: str
    quarters: str | None = None


class LocalStack:
    """The stack of one home folder, running or not. Services can be stopped and started one by one."""

    def __init__(self, home: Path, state: _State) -> None:
        self.home = home
        self._state = state
        self.quarters = living.choose(home, Path(state.quarters) if state.quarters else None)
        self.postgres = Postgres(home, self.quarters, state.postgres, durable=state.durable)
        self.redis = Redis(home, self.quarters, state.redis, durable=state.durable)
        self.sqs = Sqs(home, self.quarters, state.sqs, durable=state.durable)

    @property
    def services(self) -> tuple[Service, ...]:
        return (self.postgres, self.redis, self.sqs)

    def environment(self) -> dict[str, str]:
        """The variables that a process needs to use this stack. The same whether it runs or not."""
        return environment_of(self.postgres.url, self.redis.url, self.sqs.address, self._state.api_key, self.home)

    def status(self) -> dict[str, ServiceStatus]:
        """The status by service name. Checks all services; takes about two seconds if one hangs."""
        return dict(
            zip((service.name for service in self.services), _at_once(Service.status, self.services), strict=True)
        )

    def is_running(self) -> bool:
        """Whether all three services respond."""
        return all(status.running for status in self.status().values())

    def remember(self) -> None:
        """Saves the ports and the folder for later commands."""
        self._state = replace(
            self._state,
            postgres=self.postgres.port,
            redis=self.redis.port,
            sqs=self.sqs.port,
            quarters=str(self.quarters.folder),
        )
        write_whole(self.home / _STATE_FILE, json.dumps(asdict(self._state), indent=2) + "\n")


def up(home: Path, *, durable: bool = True, ports: Ports | None = None) -> LocalStack:
    """Returns the stack at `home` once all services respond. Leaves running services unchanged.

    If some services run, the others start on their previous ports, so that clients find them again. If none runs, they may move
    to other ports if theirs are taken. `durable=False` is for tests: Postgres skips fsync, and SQS loses everything at a stop.
    It affects only services that this call starts. Raises LocalStackError if a service does not start, or runs on another port
    than requested.
    """
    home = home.expanduser().resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalStackError(
            f"cannot make the folder {home} ({error.strerror}): set TURNSTILE_HOME to another"
        ) from error
    with exclusive(home / _LOCK_FILE):
        state = replace(_read(home) or _new(), durable=durable)
        wanted = {name: port for name, port in asdict(ports or Ports()).items() if port is not None}
        stack = LocalStack(home, state)
        alive = {service.name for service in stack.services if service.process.pid() is not None}
        for service in stack.services:
            port = wanted.get(service.name, service.port)
            if service.name in alive and service.port != port:
                raise LocalStackError(
                    f"{service.name} runs on port {service.port}, not {port}: `turnstile local down` first"
                )
            service.port = port
        # Also saved before the start, so that the next command finds the services of an interrupted start.
        stack.remember()
        try:
            _at_once(lambda service: service.start(may_move=not alive and service.name not in wanted), stack.services)
        finally:
            stack.remember()
        return stack


def down(home: Path, *, purge: bool = False) -> bool:
    """Stops the running services of the stack at `home`, also after a crash. True if anything was stopped or removed.

    `purge` removes the data and the state of the stack; other files in `home` stay.
    """
    home = home.expanduser().resolve()
    if not (home / _LOCK_FILE).exists():
        return False
    with exclusive(home / _LOCK_FILE):
        stack = LocalStack(home, _read(home) or _new())
        stopped = any(_at_once(Service.stop, stack.services))
        if not purge:
            return stopped
        _remove(stack)
    return True


@contextmanager
def temporary(*, durable: bool = True) -> Iterator[LocalStack]:
    """A stack in a folder of its own, removed after the block."""
    home = Path(tempfile.mkdtemp(prefix="turnstile-stack-"))
    try:
        yield up(home, durable=durable)
    finally:
        down(home, purge=True)
        shutil.rmtree(home, ignore_errors=True)


def find(home: Path) -> LocalStack | None:
    """The stack at `home`, running or not; None if there is none, or it was purged."""
    home = home.expanduser().resolve()
    state = _read(home)
    return LocalStack(home, state) if state else None


def _remove(stack: LocalStack) -> None:
    for folder in dict.fromkeys([stack.quarters.folder, stack.home]):
        for service in stack.services:
            shutil.rmtree(folder / service.name, ignore_errors=True)
        for programs in folder.glob("programs-*"):
            shutil.rmtree(programs, ignore_errors=True)
    if stack.quarters.folder != stack.home:
        shutil.rmtree(stack.quarters.folder, ignore_errors=True)
    for service in stack.services:
        for suffix in ("pid", "log", "lock"):
            (stack.home / f"{service.name}.{suffix}").unlink(missing_ok=True)
    (stack.home / _STATE_FILE).unlink(missing_ok=True)
    (stack.home / _LOCK_FILE).unlink(missing_ok=True)
    if not any(stack.home.iterdir()):
        stack.home.rmdir()


def _new() -> _State:
    return _State(choose_free(), choose_free(), choose_free(), durable=True, api_key=secrets.token_urlsafe(24))


def _read(home: Path) -> _State | None:
    try:
        return _State(**json.loads((home / _STATE_FILE).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # Written by another version or by hand. The data is elsewhere, so only ports and keys are chosen again.
        return None
    except OSError as error:
        raise LocalStackError(
            f"cannot read {home / _STATE_FILE} ({error.strerror}): set TURNSTILE_HOME to another folder"
        ) from error


def _at_once(do: Callable[[Service], Any], services: Iterable[Service]) -> list[Any]:
    """Calls `do` for all services in parallel and waits for all; then raises the failures as one error."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        futures = [pool.submit(do, service) for service in services]
    failures = [future.exception() for future in futures]
    found = [failure for failure in failures if failure is not None]
    if len(found) > 1 and all(isinstance(failure, LocalStackError) for failure in found):
        raise LocalStackError("\n".join(map(str, found)))
    if found:
        raise found[0]
    return [future.result() for future in futures]


def environment_of(database_url: str, redis_url: str, sqs_url: str, api_key: str, home: Path) -> dict[str, str]:
    """The variables that a process needs to use services at these addresses."""
    direct = _direct_hosts()
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "AWS_ENDPOINT_URL_SQS": sqs_url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "NO_PROXY": direct,
        "no_proxy": direct,
        "TURNSTILE_API_KEYS": f"{DEFAULT_TENANT}:{api_key}",
        "TURNSTILE_API_KEY": api_key,
        "TURNSTILE_HOME": str(home),
    }


def _direct_hosts() -> str:
    """NO_PROXY with the loopback addresses: otherwise boto3 sends even loopback requests to a proxy."""
    return ",".join(dict.fromkeys([*_words("NO_PROXY"), *_words("no_proxy"), LOOPBACK, "localhost"]))


def _words(variable: str) -> list[str]:
    return [word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()]
