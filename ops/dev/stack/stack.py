"""The embedded stack as a whole: started once and reused, mended where half of it died, stopped cleanly.

stack = up(Path(".local"))
os.environ.update(stack.environment())
...
down(stack.home)
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
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

__all__ = ["LocalStack", "LocalStackError", "Ports", "ServiceStatus", "down", "environment_of", "find", "up"]

_STATE_FILE = "stack.json"
_LOCK_FILE = "stack.lock"


@dataclass(frozen=True)
class _State:
    """What is remembered between commands, also while the stack is down: clients find it where it was."""

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
        """All that a process needs to work with this stack. The same whether it runs or not."""
        return environment_of(self.postgres.url, self.redis.url, self.sqs.address, self._state.api_key, self.home)

    def status(self) -> dict[str, ServiceStatus]:
        """By the service's name. Asks each of them; one that hangs costs about two seconds."""
        return dict(
            zip((service.name for service in self.services), _at_once(Service.status, self.services), strict=True)
        )

    def is_running(self) -> bool:
        """Whether all three answer."""
        return all(status.running for status in self.status().values())

    def remember(self) -> None:
        """Write down where it is, for the commands to come."""
        self._state = replace(
            self._state,
            postgres=self.postgres.port,
            redis=self.redis.port,
            sqs=self.sqs.port,
            quarters=str(self.quarters.folder),
        )
        write_whole(self.home / _STATE_FILE, json.dumps(asdict(self._state), indent=2) + "\n")


def up(home: Path, *, durable: bool = True, ports: Ports | None = None) -> LocalStack:
    """Return the stack at `home` when all of it answers; what runs already is left as it is.

    Dead members of a stack that half runs are started on the ports they had, so that clients find them again; a stack
    that is wholly down may move to other ports if its own were taken meanwhile. `durable=False` is for tests: Postgres
    skips fsync and SQS forgets everything when stopped; it counts for what this call starts. LocalStackError if a
    service does not come up, or runs on another port than asked for.
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
        # Written before the start as well: a start that is interrupted must be found by the next command.
        stack.remember()
        try:
            _at_once(lambda service: service.start(may_move=not alive and service.name not in wanted), stack.services)
        finally:
            stack.remember()
        return stack


def down(home: Path, *, purge: bool = False) -> bool:
    """Stop what runs of the stack at `home`, also after a crash; True if anything ran or was removed.

    With `purge`, remove its data and its state; files in `home` that are not the stack's stay.
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


def find(home: Path) -> LocalStack | None:
    """The stack at `home`, running or not; None if there has never been one, or it was purged."""
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
        # Written by another version, or by hand. The data is elsewhere; only ports and keys are chosen anew.
        return None
    except OSError as error:
        raise LocalStackError(
            f"cannot read {home / _STATE_FILE} ({error.strerror}): set TURNSTILE_HOME to another folder"
        ) from error


def _at_once(do: Callable[[Service], Any], services: Iterable[Service]) -> list[Any]:
    """Do it for all services in parallel, all of them to the end; then raise what failed as one error."""
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
    """What a process needs to work with services at these addresses, whatever runs them."""
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
    """A NO_PROXY with the loopback address: boto3 sends even its requests to a proxy unless told otherwise."""
    return ",".join(dict.fromkeys([*_words("NO_PROXY"), *_words("no_proxy"), LOOPBACK, "localhost"]))


def _words(variable: str) -> list[str]:
    return [word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()]
