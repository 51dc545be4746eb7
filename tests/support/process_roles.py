"""The roles of a test run's Postgres: each of the product's processes connects as its own, with the rights of its kind.

The tests themselves look at the tables, and tamper with them, as the superuser who made them.
"""

from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind

PASSWORD = "of a test run"
WITH_RELAY = "tested_worker_with_relay"
"""Of a worker that runs a relay."""

KINDS = {f"tested_{kind}": frozenset({kind}) for kind in Kind} | {WITH_RELAY: frozenset({Kind.WORKER, Kind.RELAY})}
"""What `turnstile grant` is told. The names are not those of the embedded stack, on which `turnstile up` may run, too."""

OF_COMMANDS = {"api": Kind.API, "relay": Kind.RELAY}


def make_roles(superuser_url: str) -> None:
    """Once for a server: roles are of all its databases."""
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        for role in KINDS:
            make = SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            superuser.execute(make.format(Identifier(role), Literal(PASSWORD)))


def url_of(kind: Kind, url: str) -> str:
    """The URL of the same database for a process of the kind."""
    return _as_role(f"tested_{kind}", url)


def url_of_command(command: str, superuser_url: str) -> str:
    """The same for a command that serves. A worker may run a relay."""
    role = f"tested_{OF_COMMANDS[command]}" if command in OF_COMMANDS else WITH_RELAY
    return _as_role(role, superuser_url)


def as_worker(settings: Settings) -> Settings:
    """The settings of a worker without a relay, with its role."""
    return settings.model_copy(update={"database_url": url_of(Kind.WORKER, settings.database_url)})


def _as_role(role: str, url: str) -> str:
    place = urlsplit(url)
    if place.username not in {"turnstile", *KINDS}:
        # Of a role that the test has chosen, or of no server.
        return url
    return place._replace(netloc=f"{role}:{PASSWORD.replace(' ', '%20')}@{place.hostname}:{place.port}").geturl()
