"""Databases for the tests: cloned from the migrated template, emptied after each test and used again.

A clone costs Postgres a tenth of a second of CPU, emptying one a hundredth, a new connection to empty it as much again, and
nine hundred tests want one. What can't be
emptied for sure is dropped: where a test has changed the schema or has made the files grow, or somebody still writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from tests.support.stacks.stack import Stack

GROWN_BYTES = 4_000_000
"""By so much more than the template: emptied tables keep their files, and their dead rows slow the next test down."""

# What the server brings has numbers below 16384.
SCHEMA = """
SELECT md5(string_agg(one, ',' ORDER BY one)) FROM (
    SELECT format('schema %s', nspname) FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT format('relation %s %s %s', oid, relname, reloptions) FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT format('column %s %s %s %s', attrelid, attnum, attname, attnotnull) FROM pg_attribute
               WHERE attrelid >= 16384
    UNION ALL SELECT format('constraint %s %s', oid, conname) FROM pg_constraint
    UNION ALL SELECT format('trigger %s %s %s', oid, tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT format('function %s %s', oid, proname) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT format('setting %s', setconfig) FROM pg_db_role_setting
               WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL SELECT format('version %s', version_num) FROM turnstile.turnstile_version) every (one)
"""
OTHERS = """
SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'turnstile' AND tablename <> 'turnstile_version'"
RESTART_SEQUENCES = "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence"
SIZE = "SELECT pg_database_size(current_database())"


class Databases:
    """The databases of one test process."""

    def __init__(self, stack: Stack, template: str) -> None:
        self._stack = stack
        self._template = template
        self._idle: list[str] = []
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        """One to each, which empties it."""
        self._schema: object = None
        self._size = 0
        """The size of a new one. Clones of one template have the same objects under the same numbers."""

    def take(self) -> str:
        """The name of an empty, migrated one."""
        return self._idle.pop() if self._idle else self.make()

    def make(self) -> str:
        name = f"test_{uuid4().hex}"
        url = self._stack.postgres.create_database(name, template=self._template)
        connection = self._connections[name] = psycopg.connect(url, autocommit=True)
        if self._schema is None:
            self._schema, self._size = _one(connection, SCHEMA), _one(connection, SIZE)
        return name

    def url(self, name: str) -> str:
        return self._stack.postgres.database_url(name)

    def give_back(self, name: str) -> None:
        """Emptied for the next test, or dropped: also where the connection did not outlast the test."""
        try:
            fit = self._empty(self._connections[name])
        except psycopg.Error:
            fit = False
        if fit:
            self._idle.append(name)
        else:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Drops it, and ends the connections that are left."""
        if own := self._connections.pop(name, None):
            own.close()
        self._stack.postgres.drop_database(name)

    def close(self) -> None:
        """Closes the connections; the databases end with the stack."""
        for connection in self._connections.values():
            connection.close()

    def _empty(self, connection: psycopg.Connection[Any]) -> bool:
        connection.execute(OTHERS)
        if _one(connection, SCHEMA) != self._schema or _one(connection, SIZE) > self._size + GROWN_BYTES:
            return False
        tables = connection.execute(TABLES).fetchall()
        # One command, so one round trip and one commit.
        connection.execute(
            SQL("; ").join(SQL("DELETE FROM {}").format(Identifier("turnstile", table)) for (table,) in tables)
        )
        connection.execute(RESTART_SEQUENCES)
        return True


def _one(connection: psycopg.Connection[Any], statement: LiteralString) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def database_in(stack: Stack, encoding: str) -> Iterator[str]:
    """The URL of an empty database with this encoding."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(stack.postgres.database_url("postgres"), autocommit=True) as owner:
        create = SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE_PROVIDER libc LOCALE 'C'")
        owner.execute(create.format(Identifier(name), Literal(encoding)))
    try:
        yield stack.postgres.database_url(name)
    finally:
        stack.postgres.drop_database(name)
