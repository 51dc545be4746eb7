"""What Terraform tells Postgres (`infra/modules/data`), told to a Postgres."""

import re

import psycopg
import pytest

from tests.conftest import ROOT
from tests.support.stacks.stack import Stack

PARAMETERS = dict(
    re.findall(r'^ *"([a-z_.]+)" *= "(\d+)"$', (ROOT / "infra/modules/data/postgres.tf").read_text(), re.MULTILINE)
)
SAID = "what somebody has said"


@pytest.fixture
def database_url(stack: Stack) -> str:
    """No table is needed."""
    return stack.postgres.url


def test_postgres_knows_every_parameter(database_url: str) -> None:
    asked = {name for name in PARAMETERS if not name.startswith("rds.")}

    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [list(asked)]).fetchall()

    assert {name for (name,) in found} == asked


def test_a_slow_statement_is_logged_without_what_was_said(database_url: str) -> None:
    logging = {name: value for name, value in PARAMETERS.items() if name.startswith("log_parameter")}
    # Every statement is a slow one, and what goes to the log comes here as well.
    options = {**logging, "log_min_duration_statement": "0", "client_min_messages": "log"}
    told: list[str] = []

    with psycopg.connect(
        database_url, options=" ".join(f"-c {name}={value}" for name, value in options.items())
    ) as connection:
        connection.add_notice_handler(lambda said: told.append(f"{said.message_primary} {said.message_detail}"))
        connection.execute("SELECT %s::text", [SAID], prepare=True)

    assert [line for line in told if "SELECT $1::text" in line]
    assert [line for line in told if SAID in line] == []
