"""A database with the roles of infra/README.md: its master, who is no superuser (as on RDS), the owner of the tables, and a role
for each kind of process. Another role has the rights of all kinds, as in a small deployment."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.migration_run import apply
from turnstile.ops.roles.grants import grant
from turnstile.ops.roles.kinds import Kind

PAGE = Path(__file__).parents[2] / "infra/README.md"
[ROLES] = re.findall(r"^ *```sql\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
OWNER = "turnstile_schema"
SUBMITTER = f"turnstile_{Kind.SUBMITTER}"


@dataclass(frozen=True, slots=True)
class RoleUrls:
    """The URLs of one database."""

    name: str
    master: str
    owner: str
    application: str
    of: Mapping[Kind, str]

    @property
    def application_role(self) -> str:
        return urlsplit(self.application).username or ""

    def role(self, kind: Kind) -> str:
        """Its name."""
        return urlsplit(self.of[kind]).username or ""


@contextmanager
def database_with_roles(stack: Stack) -> Iterator[RoleUrls]:
    """Its master has run the statements of the page, and the owner has migrated it and granted the rights."""
    suffix = uuid4().hex[:12]
    name, master, application = f"test_{suffix}", f"master_{suffix}", f"turnstile_app_{suffix}"
    passwords = dict(re.findall(r"ROLE (\w+) LOGIN PASSWORD '([^']+)'", ROLES))
    # The role of an application that submits in its own transactions: the application's, and on no page of ours.
    passwords[SUBMITTER] = "submitter"
    statements = ROLES
    for role in passwords:
        # A role is of the whole cluster, and tests run side by side.
        statements = re.sub(rf"\b{role}\b", f"{role}_{suffix}", statements)
    statements = statements.replace("ON DATABASE turnstile ", f"ON DATABASE {name} ")

    def url(role: str, password: str) -> str:
        place = urlsplit(stack.postgres.database_url(name))
        return place._replace(netloc=f"{role}:{quote(password)}@{place.hostname}:{place.port}").geturl()

    with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE {} LOGIN CREATEROLE CREATEDB PASSWORD 'master'").format(Identifier(master)))
        # RDS gives these to its master, too.
        superuser.execute(SQL("GRANT pg_monitor, pg_signal_backend TO {}").format(Identifier(master)))
        superuser.execute(SQL("CREATE DATABASE {} OWNER {}").format(Identifier(name), Identifier(master)))
        with psycopg.connect(url(master, "master"), autocommit=True) as connection:
            connection.execute(cast("LiteralString", statements))
            connection.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'application'").format(Identifier(application)))
            submitter = Identifier(f"{SUBMITTER}_{suffix}")
            connection.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'submitter'").format(submitter))
        urls = {role: url(f"{role}_{suffix}", password) for role, password in passwords.items()}
        apply(DatabasePlace(urls[OWNER]))
        own = {f"turnstile_{kind}_{suffix}": frozenset({kind}) for kind in Kind}
        grant(DatabasePlace(urls[OWNER]), {**own, application: frozenset(Kind)})
        of = {kind: urls[f"turnstile_{kind}"] for kind in Kind}
        yield RoleUrls(name, url(master, "master"), urls[OWNER], url(application, "application"), of)
        stack.postgres.drop_database(name)
        for role in (*(f"{role}_{suffix}" for role in passwords), application, master):
            superuser.execute(SQL("DROP ROLE {}").format(Identifier(role)))
