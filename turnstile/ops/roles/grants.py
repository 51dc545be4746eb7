"""Gives the roles of the database their rights, and remembers which role is of which kind.

Whoever owns the tables does it, in one transaction: a role that is in use is never without its rights.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import RECORD, parameters, report
from turnstile.backends.postgres.certificate import certificate_refused
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.outage import is_outage
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.table_version import MISSING, OLDER
from turnstile.errors import DatabaseUnavailableError
from turnstile.migrations.lock_timeouts import MIGRATION_LOCK
from turnstile.ops.roles.kinds import Kind, grant_statement
from turnstile.ops.roles.policies import READ_KINDS, READ_POLICIES, policy_statements
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

Roles = Mapping[str, frozenset[Kind]]
"""The kinds of each role."""

Connection = psycopg.Connection[Any]

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.25

# A member of the owner may do whatever the owner may.
_READ_ROLE: LiteralString = """
SELECT r.rolsuper OR pg_has_role(r.oid, c.relowner, 'MEMBER'), has_database_privilege(r.oid, current_database(), 'TEMPORARY')
  FROM pg_roles r JOIN pg_class c ON c.oid = to_regclass('turns') WHERE r.rolname = %s
"""

_READ_OWNER: LiteralString = """
SELECT pg_has_role(relowner, 'USAGE'), relowner::regrole::text FROM pg_class WHERE oid = to_regclass('turns')
"""


def grant(place: DatabasePlace, named: Roles, *, by: str | None = None) -> tuple[Roles, list[str]]:
    """Gives the named roles the rights of their kinds, and no others in the schema; the roles of earlier calls get theirs again.

    Returns all roles, and advice about them. The audit gets an event in the same transaction if it is known who grants (`by`).
    Raises CommandError, CertificateRefusedError and DatabaseUnavailableError.
    """
    with _connection(place) as connection:
        _wait_for_migrations(connection)
        if (refused := _owner_refused(connection)) is not None:
            raise refused
        roles, advice = _grant(connection, place, named)
        if by is not None:
            subject = describe(named) or "the roles of earlier calls"
            event = AuditEvent(kind=AuditKind.ROLES_GRANTED, actor=by, subject=subject)
            connection.execute(RECORD, parameters(event))
            report(event)
        return roles, advice


def grant_again(place: DatabasePlace) -> Roles:
    """Gives the roles of earlier calls their rights in tables that a migration has made since.

    Nothing happens if there are none, or if the connection's role does not own the tables. Raises as `grant`.
    """
    with _connection(place) as connection:
        _wait_for_migrations(connection)
        return {} if _owner_refused(connection) else _grant(connection, place, {})[0]


def describe(roles: Roles) -> str:
    """Which role has the rights of which kinds."""
    return "; ".join(f"{role}: {' and '.join(kind for kind in Kind if kind in kinds)}" for role, kinds in roles.items())


def print_statements(place: DatabasePlace, named: Roles) -> str:
    """What `grant` would execute for the named roles, as a script for psql. It changes nothing."""
    with _connection(place) as connection:
        statements = [*_rights(place, named), *_policies(connection, {**read_roles(connection), **named})]
        path = SQL("SET LOCAL search_path = {}").format(Identifier(place.schema))
        printed = [f"{one.as_string(connection)};" for one in (path, *statements)]
    return "\n".join(["BEGIN;", *printed, "COMMIT;"])


def read_roles(connection: Connection) -> dict[str, frozenset[Kind]]:
    """The roles that have been granted their rights, and have not been dropped since."""
    kinds: dict[str, frozenset[Kind]] = {}
    for kind, roles in connection.execute(READ_KINDS, [list(Kind)]).fetchall():
        for role in roles:
            kinds[role] = kinds.get(role, frozenset()) | {Kind(kind)}
    return kinds


def _grant(connection: Connection, place: DatabasePlace, named: Roles) -> tuple[Roles, list[str]]:
    roles = {**read_roles(connection), **named}
    advice = [line for role in roles for line in _check(connection, role)]
    for statement in (*_rights(place, roles), *_policies(connection, roles)):
        connection.execute(statement)
    return roles, advice


def _rights(place: DatabasePlace, roles: Roles) -> Iterator[Composed]:
    for role, kinds in roles.items():
        yield grant_statement(place.schema, role, kinds)


def _policies(connection: Connection, roles: Roles) -> Iterator[Composed]:
    found = connection.execute(READ_POLICIES).fetchall()
    present = {(table, name): (names, said) for table, name, names, said in found}
    of_kinds = {kind: [role for role, kinds in roles.items() if kind in kinds] for kind in Kind}
    return policy_statements(of_kinds, present)


def _check(connection: Connection, role: str) -> Iterator[str]:
    found = connection.execute(_READ_ROLE, [role]).fetchone()
    if found is None:
        make = f"CREATE ROLE {Identifier(role).as_string(connection)} LOGIN PASSWORD '…'"
        raise CommandError(f"there is no role {role}: whoever may create roles makes it: {make}", ExitCode.NOT_FOUND)
    is_owner, makes_temporary = found
    if is_owner:
        raise CommandError(
            f"{role} may do whatever the owner of the tables may, and no grant takes that away: name another role, "
            "which is neither a superuser nor a member of the owner",
            ExitCode.USAGE,
        )
    if makes_temporary:
        database = Identifier(connection.info.dbname).as_string(connection)
        yield (
            f"{role} may make temporary tables, which Turnstile never needs: the owner of the database takes that away: "
            f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC"
        )


def _wait_for_migrations(connection: Connection) -> None:
    # It polls, as the migrations do: a statement that waits holds up the building of an index.
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        taken = connection.execute(f"SELECT pg_try_advisory_xact_lock({MIGRATION_LOCK})").fetchone()
        if taken is not None and taken[0]:
            break
        connection.rollback()
        if time.monotonic() > deadline:
            raise CommandError("a migration is under way: run it again after that one", ExitCode.UNAVAILABLE)
        time.sleep(_POLL_SECONDS)


def _owner_refused(connection: Connection) -> CommandError | None:
    found = connection.execute(_READ_OWNER).fetchone()
    if found is None:
        return CommandError(MISSING, ExitCode.UNAVAILABLE)
    is_owner, owner = found
    if is_owner:
        return None
    advice = "set DATABASE_URL to that role"
    return CommandError(f"only {owner}, who owns the tables, can grant rights on them: {advice}", ExitCode.USAGE)


@contextmanager
def _connection(place: DatabasePlace) -> Iterator[Connection]:
    """One transaction of the owner of the tables."""
    try:
        with psycopg.connect(conninfo(place, "turnstile-grant")) as connection:
            yield connection
    except psycopg.Error as error:
        if (refused := certificate_refused("DATABASE_URL", error)) is not None:
            raise refused from error
        if isinstance(error, psycopg.errors.UndefinedTable):
            raise CommandError(OLDER, ExitCode.UNAVAILABLE) from error
        if is_outage(error):
            raise DatabaseUnavailableError(str(error)) from error
        raise
