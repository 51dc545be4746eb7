"""The functions of the schema, in the hands of the application's role and of sessions with another search path.

With the roles of infra/README.md.
"""

import json
from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.ops.roles.kinds import Kind

Connection = psycopg.Connection[Any]

# What the role would have run as the owner, had the function looked for `fence_seq` in the temporary schema first.
AS_OWNER: LiteralString = """
CREATE FUNCTION pg_temp.evil() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE 'ALTER TABLE turnstile.turns DISABLE TRIGGER USER';
    EXECUTE 'GRANT ALL ON ALL TABLES IN SCHEMA turnstile TO PUBLIC';
    RETURN 9223372036854775807;
END $$;
CREATE TEMP VIEW fence_seq AS SELECT pg_temp.evil() AS last_value;
CREATE TEMP VIEW memory_version_seq AS SELECT pg_temp.evil() AS last_value;
GRANT SELECT ON fence_seq, memory_version_seq TO PUBLIC;
"""

BORN_ENDED: LiteralString = """
INSERT INTO turnstile.turns (id, tenant_id, session_id, queue, status, expires_at, trace_id, span_id, finished_at)
VALUES (gen_random_uuid(), 't', 's', 'q', 'SUCCEEDED', now(), '1', '1', now())
"""

WITH_WEBHOOK: LiteralString = """
INSERT INTO turnstile.turns (id, tenant_id, session_id, queue, status, expires_at, trace_id, span_id, finished_at, webhook_url)
VALUES (gen_random_uuid(), 't', 's', 'q', 'CANCELED', now(), '1', '1', now(), 'https://example.com')
"""


@pytest.fixture
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        yield made


@pytest.fixture
def application(roles: RoleUrls) -> Iterator[Connection]:
    """A session of the application's role."""
    with psycopg.connect(outside(roles.application), autocommit=True) as opened:
        yield opened


def allow_temporary(roles: RoleUrls) -> None:
    """As in a database that is shared with an application that uses temporary tables."""
    with psycopg.connect(roles.master, autocommit=True) as master:
        grant = SQL("GRANT TEMPORARY ON DATABASE {} TO {}")
        master.execute(grant.format(Identifier(roles.name), Identifier(roles.application_role)))


def test_the_application_role_makes_nothing_temporary(application: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="temporary"):
        application.execute("CREATE TEMP VIEW fence_seq AS SELECT 1 AS last_value")


def test_what_the_application_role_makes_temporary_does_not_run_as_the_owner(
    roles: RoleUrls, application: Connection
) -> None:
    allow_temporary(roles)
    # A session that has made it after the grant.
    application.execute(AS_OWNER)

    application.execute("SELECT advance_sequences(0)")

    with pytest.raises(psycopg.errors.CheckViolation):
        application.execute(BORN_ENDED)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        application.execute("TRUNCATE redrives")


def test_the_application_role_can_not_use_the_sequences_up(application: Connection) -> None:
    for far in ((1 << 53) - 1, (1 << 63) - 1):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            application.execute("SELECT advance_sequences(%s)", [far])


def test_a_role_without_a_grant_runs_no_function(roles: RoleUrls, stack: Stack) -> None:
    stranger = Identifier(f"stranger_{roles.name}")
    with psycopg.connect(stack.postgres.database_url(roles.name), autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE {0}; GRANT USAGE ON SCHEMA turnstile TO {0}").format(stranger))
        superuser.execute(SQL("SET ROLE {}").format(stranger))

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            superuser.execute("SELECT turnstile.advance_sequences(0)")

        superuser.execute("RESET ROLE")
        superuser.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(stranger))


@pytest.mark.parametrize("path", ["public", ""])
def test_a_turn_that_ends_by_hand_owes_its_webhook_to_ours_and_not_to_a_table_of_that_name(
    roles: RoleUrls, path: str
) -> None:
    with psycopg.connect(roles.master, autocommit=True) as master:
        master.execute("CREATE TABLE public.webhooks AS SELECT * FROM turnstile.webhooks")
        master.execute("SELECT set_config('search_path', %s, false)", [path])

        master.execute(WITH_WEBHOOK)

        assert master.execute("SELECT url FROM turnstile.webhooks").fetchall() == [("https://example.com",)]
        assert master.execute("SELECT url FROM public.webhooks").fetchall() == []


UNNAMEABLE: list[dict[str, Any]] = [
    {"tenant_id": "a b"}, {"tenant_id": None}, {"session_id": ".."}, {"session_id": "s" * 129}, {"session_id": "s\n"},
    {"session_id": "compensation:s"}, {"queue": ""}, {"trace_id": "1"}, {"span_id": "f" * 17},
]  # fmt: skip


@pytest.mark.parametrize("wrong", UNNAMEABLE, ids=repr)
def test_by_hand_no_turn_is_submitted_that_no_message_can_name(roles: RoleUrls, wrong: dict[str, Any]) -> None:
    right = {
        "id": str(UUID(int=1)), "tenant_id": "t", "session_id": "s" * 128, "queue": "q", "expires_in": 60, "metadata": {},
        "trace_id": "0" * 32, "span_id": "f" * 16, "content": "x",
    }  # fmt: skip
    call = "SELECT submit_turn(%s)"
    with psycopg.connect(outside(roles.of[Kind.SUBMITTER])) as connection:
        connection.execute(call, [json.dumps(right)])
        with pytest.raises((psycopg.errors.InvalidParameterValue, psycopg.errors.NotNullViolation)):
            connection.execute(call, [json.dumps({**right, "id": str(UUID(int=2)), **wrong})])


def test_what_runs_as_the_owner_is_bound_to_the_schema(application: Connection) -> None:
    """Also a function that is added later."""
    found = application.execute(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'turnstile'::regnamespace AND prosecdef"
    ).fetchall()

    assert [name for name, config in found if "search_path=turnstile, pg_temp" not in config] == []
    assert {"advance_sequences", "submit_turn"} <= {name for name, _ in found}
