"""What an attack with one role for all processes could do, and the roles of the kinds may not."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.ops.roles.kinds import Kind

# Each of them would do something if it were allowed, on empty tables, too: rights are looked at first.
REFUSED: dict[LiteralString, tuple[Kind, ...]] = {
    # The record of what operators did, and of who did what.
    "UPDATE redrives SET requested_by = 'somebody else'": tuple(Kind),
    "UPDATE redrives SET started_at = now()": tuple(Kind),
    "INSERT INTO redrives (requested_by, filter, started_at) VALUES ('ada', '{}', '2000-01-01')": tuple(Kind),
    "DELETE FROM redrives": (Kind.API, Kind.WORKER, Kind.OPERATOR, Kind.SUBMITTER),
    "UPDATE audit SET actor = 'somebody else'": tuple(Kind),
    "INSERT INTO audit (kind, actor, subject, created_at) VALUES ('k', 'a', 's', '2000-01-01')": tuple(Kind),
    "DELETE FROM audit": (Kind.API, Kind.WORKER, Kind.OPERATOR, Kind.SUBMITTER),
    # The version of the tables, and the tables.
    "UPDATE turnstile_version SET version_num = '9999'": tuple(Kind),
    "DELETE FROM turnstile_version": tuple(Kind),
    "TRUNCATE turns": tuple(Kind),
    "ALTER TABLE turns DISABLE TRIGGER turns_legal_transition": tuple(Kind),
    "ALTER TABLE turns DISABLE ROW LEVEL SECURITY": tuple(Kind),
    "CREATE POLICY mine ON turns USING (true)": tuple(Kind),
    "CREATE TABLE more (id int)": tuple(Kind),
    "CREATE TEMP TABLE more (id int)": tuple(Kind),
    # What was said, and to whom it belongs.
    "UPDATE messages SET content = '1'": tuple(Kind),
    "UPDATE turns SET tenant_id = 'another'": tuple(Kind),
    "UPDATE turn_values SET value = '1'": tuple(Kind),
    "DELETE FROM turns": (Kind.API, Kind.WORKER, Kind.SUBMITTER),
    "DELETE FROM messages": (Kind.API, Kind.WORKER, Kind.SUBMITTER),
    "UPDATE turns SET webhook_url = 'https://evil.example'": tuple(Kind),
    "INSERT INTO webhooks (turn_id, generation, tenant_id, url, event) VALUES (gen_random_uuid(), 1, 't', 'u', '1')": tuple(Kind),
    # Keys, and sequences that only their owner could set back.
    "INSERT INTO api_keys (key_id, digest, tenant_id, role, created_by) VALUES ('k', '', 't', 'admin', 'me')": (
        Kind.API, Kind.WORKER, Kind.RELAY, Kind.SUBMITTER,
    ),
    "SELECT digest FROM api_keys": (Kind.WORKER, Kind.RELAY, Kind.SUBMITTER),
    "UPDATE api_keys SET role = 'admin'": tuple(Kind),
    "SELECT setval('fence_seq', 9007199254740991)": tuple(Kind),
    "SELECT advance_sequences(0)": (Kind.API, Kind.RELAY, Kind.SUBMITTER),
    # An application submits by the function alone, and the processes do not submit by it.
    "SELECT FROM turns": (Kind.SUBMITTER,),
    "SELECT FROM submissions": (Kind.SUBMITTER,),
    "INSERT INTO messages (turn_id, ordinal, role, content) VALUES (gen_random_uuid(), 0, 'user', '1')": (Kind.SUBMITTER,),
    "SELECT submit_turn('{}')": (Kind.API, Kind.WORKER, Kind.RELAY),
}  # fmt: skip


@pytest.fixture(scope="module")
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        yield made


@pytest.mark.parametrize("kind", Kind)
def test_what_a_process_of_the_kind_is_refused(roles: RoleUrls, kind: Kind) -> None:
    allowed = []
    with psycopg.connect(outside(roles.of[kind])) as connection:
        for statement, kinds in REFUSED.items():
            if kind not in kinds:
                continue
            try:
                connection.execute(statement)
                allowed.append(statement)
            except psycopg.errors.InsufficientPrivilege:
                pass
            connection.rollback()

    assert allowed == []


@pytest.mark.parametrize("kind", [Kind.WORKER, Kind.OPERATOR])
def test_no_process_uses_the_sequences_up(roles: RoleUrls, kind: Kind) -> None:
    with (
        psycopg.connect(outside(roles.of[kind])) as connection,
        pytest.raises(psycopg.errors.InvalidParameterValue, match="30 days"),
    ):
        connection.execute("SELECT advance_sequences(%s)", [(1 << 53) - 1])
