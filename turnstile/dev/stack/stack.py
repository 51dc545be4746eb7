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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from turnstile.dev.stack.lifecycle import Service, ServiceStatus
from turnstile.dev.stack.ports import LOOPBACK, choose_free, is_free
from turnstile.dev.stack.postgres import DATABASE, Postgres
from turnstile.dev.stack.processes import LocalStackError, check_owner, exclusive, private
from turnstile.dev.stack.redis import Redis
from turnstile.dev.stack.roles import OPERATOR, ROLES
from turnstile.dev.stack.run_as import choose
from turnstile.dev.stack.sqs import REGION, Sqs
from turnstile.turn.identifiers import DEFAULT_TENANT

_STATE_FILE = "stack.json"
_LOCK_FILE = "stack.lock"

Result = TypeVar("Result")


def _make_password() -> str:
    return secrets.token_urlsafe(24)


@dataclass
class _State:
    """What commands keep, also while the stack is down, so that clients find it at the same addresses."""

    postgres: int = field(default_factory=choose_free)
    redis: int = field(default_factory=choose_free)
    sqs: int = field(default_factory=choose_free)
    api_key: str = field(default_factory=_make_password)
    postgres_password: str = field(default_factory=_make_password)
    role_passwords: dict[str, str] = field(default_factory=lambda: {process: _make_password() for process in ROLES})
    redis_password: str = field(default_factory=_make_password)


class LocalStack:
    """The stack of one home folder, running or not. Services can be stopped and started one by one."""

    def __init__(
        self, home: Path, state: _State, *, durable: bool = True, make_postgres: Callable[..., Postgres] = Postgres
    ) -> None:
        self.home = home
        self._api_key = state.api_key
        self.run_as = choose(home)
        self.postgres = make_postgres(
            home, self.run_as, state.postgres, state.postgres_password, state.role_passwords, durable=durable
        )
        self.redis = Redis(home, self.run_as, state.redis, state.redis_password)
        self.sqs = Sqs(home, self.run_as, state.sqs)

    @property
    def services(self) -> tuple[Service, ...]:
        return (self.postgres, self.redis, self.sqs)

    def environment(self, database: str = DATABASE) -> dict[str, str]:
        """The variables that every process needs to use this stack, each by its own role: `stack.tables` makes roles and tables.

        The same whether the stack runs or not.
        """
        url = self.postgres.url_of(OPERATOR, database)
        logins = {process: login for process, login in self.postgres.logins.items() if process != OPERATOR}
        found = environment_of(url, self.redis.url, self.sqs.address, self._api_key, self.home)
        return found | {"TURNSTILE_DATABASE_ROLES": json.dumps(logins)}

    def status(self) -> dict[str, ServiceStatus]:
        """The status by service name. Checks all services; takes a few seconds if one hangs."""
        return {status.name: status for status in _at_once(Service.status, self.services)}

    def is_running(self) -> bool:
        """Whether all three services respond."""
        return all(status.running for status in self.status().values())


def up(home: Path, *, durable: bool = True, make_postgres: Callable[..., Postgres] = Postgres) -> LocalStack:
    """Returns the stack at `home` once all services respond. Leaves running services unchanged.

    If some services run, the others start on their previous ports, so that clients find them again. If none runs, they move to
    other ports where theirs are taken. `durable=False` and another Postgres are for tests. Raises LocalStackError if a service
    does not start.
    """
    home = home.expanduser().resolve()
    with exclusive(home / _LOCK_FILE):
        state = _read(home) or _State()
        stack = LocalStack(home, state, durable=durable, make_postgres=make_postgres)
        if not any(service.process.pid() for service in stack.services):
            for service in stack.services:
                service.port = service.port if is_free(service.port) else choose_free()
        state = replace(state, postgres=stack.postgres.port, redis=stack.redis.port, sqs=stack.sqs.port)
        # Before the start, so that the next command finds the services of an interrupted start.
        _write(home, state)
        _at_once(Service.start, stack.services)
        return stack


def down(home: Path, *, purge: bool = False) -> bool:
    """Stops the running services of the stack at `home`, also after a crash. True if anything was stopped or removed.

    `purge` removes the data and the state of the stack; other files in `home` stay.
    """
    home = home.expanduser().resolve()
    if not (home / _STATE_FILE).exists():
        return False
    with exclusive(home / _LOCK_FILE):
        # Without the saved state: pid files are enough to stop servers, also if the state can't be read.
        stack = LocalStack(home, _State())
        stopped = any(_at_once(Service.stop, stack.services))
        if not purge:
            return stopped
        _remove(stack)
    return True


@contextmanager
def temporary(*, durable: bool = True, make_postgres: Callable[..., Postgres] = Postgres) -> Iterator[LocalStack]:
    """A stack in a folder of its own, removed after the block."""
    home = Path(tempfile.mkdtemp(prefix="turnstile-stack-"))
    try:
        yield up(home, durable=durable, make_postgres=make_postgres)
    finally:
        down(home, purge=True)
        shutil.rmtree(home, ignore_errors=True)


def find(home: Path) -> LocalStack | None:
    """The stack at `home`, running or not; None if there is none, or it was purged."""
    home = home.expanduser().resolve()
    state = _read(home)
    return LocalStack(home, state) if state else None


def _remove(stack: LocalStack) -> None:
    for service in stack.services:
        for folder in {stack.run_as.folder, stack.home}:
            shutil.rmtree(folder / service.name, ignore_errors=True)
        for suffix in ("pid", "log"):
            (stack.home / f"{service.name}.{suffix}").unlink(missing_ok=True)
    if stack.run_as.account is not None:
        shutil.rmtree(stack.run_as.folder, ignore_errors=True)
    (stack.home / _STATE_FILE).unlink(missing_ok=True)
    (stack.home / _LOCK_FILE).unlink(missing_ok=True)
    # It has other files, or another command has just made a new stack.
    with suppress(OSError):
        stack.home.rmdir()


def _read(home: Path) -> _State | None:
    check_owner(home)
    file = home / _STATE_FILE
    try:
        saved = json.loads(file.read_text())
        # Another version may have saved more or less.
        return _State(**{name: value for name, value in saved.items() if name in _State.__dataclass_fields__})
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise LocalStackError(
            f"the state of the stack is damaged: `turnstile local down`, remove {file}, then up again"
        ) from error


def _write(home: Path, state: _State) -> None:
    # Readable only by its owner, because of the key and the passwords. Replaced at once: others never read a part of it.
    draft = home / f"{_STATE_FILE}.new"
    draft.unlink(missing_ok=True)
    with open(draft, "x", opener=private) as file:
        file.write(json.dumps(asdict(state), indent=2) + "\n")
    draft.replace(home / _STATE_FILE)


def _at_once(do: Callable[[Service], Result], services: Iterable[Service]) -> list[Result]:
    """Calls `do` for all services in parallel and waits for all; then raises the first failure."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        return list(pool.map(do, services))


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
