"""What a statement needs: which privileges on which columns, as Postgres itself reads it."""

import re
from dataclasses import dataclass
from typing import Any

import psycopg

from turnstile.backends.postgres.placeholders import number_placeholders

PRIVILEGES = {1: "INSERT", 2: "SELECT", 4: "UPDATE", 8: "DELETE"}
"""The bits of `requiredPerms`."""

# Of each table in each part of the statement. The columns are numbered from 8; 7 is the whole row, others are Postgres's own.
NEED = re.compile(
    r"\{RTEPERMISSIONINFO :relid (\d+) :inh \w+ :requiredPerms (\d+) :checkAsUser \d+ "
    r":selectedCols \(b([^)]*)\) :insertedCols \(b([^)]*)\) :updatedCols \(b([^)]*)\)"
)
FIRST_COLUMN = 7
WHOLE_ROW = 0


@dataclass(frozen=True, order=True, slots=True)
class Need:
    """A privilege on a table, or on one of its columns."""

    table: str
    privilege: str
    column: str = ""
    """Empty: the whole table, or any of its columns will do, as for a lock of a row."""


class Needs:
    """Reads statements on a connection of the owner of the tables. The server is PostgreSQL 16 or newer."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._tables = dict(
            connection.execute(
                "SELECT oid::int, relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
            ).fetchall()
        )
        self._columns = {
            (table, number): name
            for table, number, name in connection.execute(
                "SELECT attrelid::int, attnum::int, attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
            ).fetchall()
        }

    def of(self, statement: str) -> set[Need]:
        """What the statement needs on tables of the schema; its parameters are named or numbered."""
        tree = self._parse(number_placeholders(statement)[0])  # type: ignore[arg-type]
        needs: set[Need] = set()
        for table, bits, *columns in NEED.findall(tree):
            if int(table) in self._tables:
                needs |= self._of_table(int(table), int(bits), columns)
        return needs

    def _of_table(self, table: int, bits: int, columns: list[str]) -> set[Need]:
        named = dict(zip(("SELECT", "INSERT", "UPDATE"), columns, strict=True))
        found = set()
        for bit, privilege in PRIVILEGES.items():
            if bits & bit:
                numbers = [int(word) - FIRST_COLUMN for word in named.get(privilege, "").split()]
                names = {self._columns[table, number] for number in numbers if number > WHOLE_ROW}
                whole = not names or min(numbers) <= WHOLE_ROW
                found |= {Need(self._tables[table], privilege, name) for name in (*names, *([""] if whole else []))}
        return found

    def _parse(self, statement: str) -> str:
        """Postgres's tree of the parsed statement."""
        said: list[str] = []

        def hear(notice: psycopg.errors.Diagnostic) -> None:
            said.append(notice.message_detail or "")

        self._connection.add_notice_handler(hear)
        try:
            self._connection.execute("SET debug_pretty_print = off")
            self._connection.execute("SET debug_print_parse = on")
            self._connection.execute("SET client_min_messages = log")
            result = self._connection.pgconn.prepare(b"", statement.encode())
            self._connection.execute("SET client_min_messages = notice")
            self._connection.execute("SET debug_print_parse = off")
        finally:
            self._connection.remove_notice_handler(hear)
        if result.error_message:
            raise AssertionError(f"{result.error_message.decode()} of the statement: {statement}")
        return " ".join(" ".join(said).split())
