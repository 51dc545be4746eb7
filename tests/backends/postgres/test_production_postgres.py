"""The parameters of Terraform's Postgres (`infra/modules/data`), set on a Postgres."""

import re

import psycopg
import pytest

from tests.conftest import ROOT
from tests.support.stacks.stack import Stack

PARAMETERS = dict(
    re.findall(r'^ *"([a-z_.]+)" *= "(\w+)"$', (ROOT / "infra/modules/data/postgres.tf").read_text(), re.MULTILINE)
)
TEXT = "a message of a user"


@pytest.fixture
def database_url(stack: Stack) -> str:
    """No table is needed."""
    return stack.postgres.url


def test_postgres_knows_every_parameter(database_url: str) -> None:
    asked = {name for name in PARAMETERS if not name.startswith("rds.")}

    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [list(asked)]).fetchall()

    assert {name for (name,) in found} == asked


def test_a_slow_statement_is_logged_without_its_values(database_url: str) -> None:
    logging = {name: value for name, value in PARAMETERS.items() if name.startswith("log_parameter")}
    # Every statement is a slow one, and what goes to the log comes here as well.
    options = {**logging, "log_min_duration_statement": "0", "client_min_messages": "log"}
    lines: list[str] = []

    with psycopg.connect(
        database_url, options=" ".join(f"-c {name}={value}" for name, value in options.items())
    ) as connection:
        connection.add_notice_handler(lambda said: lines.append(f"{said.message_primary} {said.message_detail}"))
        connection.execute("SELECT %s::text", [TEXT], prepare=True)

    assert [line for line in lines if "SELECT $1::text" in line]
    assert [line for line in lines if TEXT in line] == []
