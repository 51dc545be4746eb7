"""What tests may ask of a stack, whichever it is."""

import signal
from pathlib import Path
from typing import Protocol


class Process(Protocol):
    """A service's first process."""

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal: SIGSTOP and SIGCONT, for a service that hangs."""


class Service(Protocol):
    """One service, on a port of the loopback address that it keeps over stops and starts."""

    @property
    def port(self) -> int: ...

    @property
    def address(self) -> str:
        """Scheme, host and port."""

    @property
    def process(self) -> Process: ...

    def start(self) -> None:
        """Returns when it answers."""

    def stop(self, *, immediate: bool = False) -> bool:
        """Returns when it has ended; `immediate` is like a crash. True if it was running."""

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start."""


class Postgres(Service, Protocol):
    """PostgreSQL with a superuser, and a database of its own for each test."""

    @property
    def url(self) -> str:
        """The URL of a database that always exists."""

    def database_url(self, database: str) -> str:
        """The URL of any database, whether it exists or not."""

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Creates one and returns its URL."""

    def drop_database(self, name: str) -> None:
        """Drops one if it exists, ending the connections to it."""


class Redis(Service, Protocol):
    """A Redis that keeps nothing on disk."""

    @property
    def url(self) -> str: ...


class Stack(Protocol):
    """Postgres, Redis and an SQS API. A test may stop and restart them, and must leave them running."""

    home: Path

    @property
    def postgres(self) -> Postgres: ...

    @property
    def redis(self) -> Redis: ...

    @property
    def sqs(self) -> Service: ...

    def environment(self) -> dict[str, str]:
        """All that a process needs to work with this stack."""


def as_superuser(stack: Stack) -> dict[str, str]:
    """The stack's environment for a process that connects as the superuser: tests make databases, and look at all tables."""
    environment = stack.environment() | {"DATABASE_URL": stack.postgres.url}
    environment.pop("TURNSTILE_DATABASE_ROLES", None)
    return environment
