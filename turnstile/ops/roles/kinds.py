"""The kinds of processes that have a role of the database each."""

from enum import StrEnum
from pathlib import Path
from typing import LiteralString

from psycopg.sql import SQL, Composed, Identifier


class Kind(StrEnum):
    """What a process does. The migrator has no kind: its role owns the tables."""

    API = "api"
    WORKER = "worker"
    RELAY = "relay"
    OPERATOR = "operator"
    SUBMITTER = "submitter"
    """An application that submits in its own transactions (`turnstile.submit`)."""


def rights_of(kind: Kind) -> LiteralString:
    """The statements that give a role the rights of the kind, with `{role}` for its name."""
    return Path(__file__).with_name(f"{kind}.sql").read_text("utf-8")


def grant_statement(schema: str, role: str, kinds: frozenset[Kind]) -> Composed:
    """Takes every right in the schema from the role, and gives it those of the kinds."""
    names = {"schema": Identifier(schema), "role": Identifier(role)}
    rights = [rights_of(kind).rstrip().rstrip(";") for kind in Kind if kind in kinds]
    return SQL(";\n").join(SQL(part).format(**names) for part in (_NOTHING_ELSE, *rights))


_NOTHING_ELSE: LiteralString = """\
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM {role};
REVOKE ALL ON SCHEMA {schema} FROM {role};
GRANT USAGE ON SCHEMA {schema} TO {role}"""
