"""Each kind of process may do what its statements need, and nothing beyond."""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.executed_statements import executed_by
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from tests.support.statement_needs import Need, Needs
from turnstile.backends.postgres.placeholders import number_placeholders
from turnstile.ops.roles.kinds import Kind
from turnstile.schema import METADATA

Connection = psycopg.Connection[Any]

WITHOUT_RIGHTS = {
    Kind.API: {
        "limit_overrides",
        "paused_queues",
        "redrives",
        "retention",
        "turn_attempts",
        "turn_traces",
        "turn_values",
        "webhook_secrets",
    },
    Kind.WORKER: {"api_keys", "audit", "browser_tokens", "erasures", "retention", "webhook_secrets", "webhooks"},
    Kind.RELAY: {"limit_overrides"},
    Kind.OPERATOR: {"retention"},
    Kind.SUBMITTER: {table.name for table in METADATA.sorted_tables},
}
"""A new table stands here, or in the rights of the kind."""

GRANTED: LiteralString = """
SELECT c.relname, a.privilege_type, '' FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
 WHERE c.relnamespace = 'turnstile'::regnamespace AND c.relkind = 'r' AND a.grantee = %(role)s::regrole
UNION ALL
SELECT c.relname, a.privilege_type, k.attname
  FROM pg_class c JOIN pg_attribute k ON k.attrelid = c.oid CROSS JOIN aclexplode(k.attacl) a
 WHERE c.relnamespace = 'turnstile'::regnamespace AND c.relkind = 'r' AND a.grantee = %(role)s::regrole
"""

BEYOND_TABLES: LiteralString = """
SELECT 'sequence ' || c.relname || ' ' || a.privilege_type FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
 WHERE c.relnamespace = 'turnstile'::regnamespace AND c.relkind = 'S' AND a.grantee = %(role)s::regrole
UNION ALL
SELECT 'function ' || p.proname || ' ' || a.privilege_type FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
 WHERE p.pronamespace = 'turnstile'::regnamespace AND a.grantee = %(role)s::regrole
UNION ALL
SELECT 'schema ' || n.nspname || ' ' || a.privilege_type FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) a
 WHERE a.grantee = %(role)s::regrole
"""


@pytest.fixture(scope="module")
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        yield made


@pytest.fixture(scope="module")
def owner(roles: RoleUrls) -> Iterator[Connection]:
    with psycopg.connect(outside(roles.owner), autocommit=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def superuser(stack: Stack, roles: RoleUrls) -> Iterator[Connection]:
    with psycopg.connect(outside(stack.postgres.database_url(roles.name)), autocommit=True) as opened:
        yield opened


def granted(owner: Connection, role: str) -> set[Need]:
    return {Need(*row) for row in owner.execute(GRANTED, {"role": role}).fetchall()}


def needed(needs: Needs, kind: Kind) -> set[Need]:
    return {need for statement in executed_by(kind) for need in needs.of(statement)}


def is_used(grant: Need, needs: set[Need], grants: set[Need]) -> bool:
    """Whether a statement needs what is granted: the right on the table, or on the column."""
    of_table = {need for need in needs if (need.table, need.privilege) == (grant.table, grant.privilege)}
    if not grant.column:
        return bool(of_table)
    if grant in of_table:
        return True
    # A row's lock needs the right to write any column: that is one, where nothing is written.
    others = {one for one in grants if (one.table, one.privilege) == (grant.table, grant.privilege)} - {grant}
    return grant.privilege == "UPDATE" and not others and Need(grant.table, "UPDATE") in of_table


@pytest.mark.parametrize("kind", Kind)
def test_a_process_may_execute_each_of_its_statements(superuser: Connection, roles: RoleUrls, kind: Kind) -> None:
    refused = []
    superuser.execute(SQL("SET ROLE {}").format(Identifier(roles.role(kind))))
    for statement in executed_by(kind):
        try:
            # Postgres looks at the rights, and runs nothing.
            superuser.execute(f"EXPLAIN (GENERIC_PLAN) {number_placeholders(statement)[0]}")  # type: ignore[arg-type]
        except psycopg.errors.InsufficientPrivilege as error:
            refused.append((str(error), " ".join(statement.split())[:80]))
    superuser.execute("RESET ROLE")

    assert refused == []


@pytest.mark.parametrize("kind", Kind)
def test_a_process_may_do_nothing_that_no_statement_of_it_needs(owner: Connection, roles: RoleUrls, kind: Kind) -> None:
    needs = needed(Needs(owner), kind)
    grants = granted(owner, roles.role(kind))

    assert sorted(one for one in grants if not is_used(one, needs, grants)) == []


@pytest.mark.parametrize("kind", Kind)
def test_what_a_process_may_do_beyond_tables(owner: Connection, roles: RoleUrls, kind: Kind) -> None:
    advances = "function advance_sequences EXECUTE"
    draws = {"sequence fence_seq USAGE", "sequence memory_version_seq USAGE"}
    expected = {
        Kind.API: {"function is_of_other_tenant EXECUTE"},
        Kind.WORKER: {advances, *draws},
        Kind.RELAY: set(),
        Kind.OPERATOR: {advances, "function submit_turn EXECUTE", "sequence fence_seq SELECT"},
        Kind.SUBMITTER: {"function submit_turn EXECUTE"},
    }

    found = {row[0] for row in owner.execute(BEYOND_TABLES, {"role": roles.role(kind)}).fetchall()}

    assert found == {"schema turnstile USAGE", *expected[kind]}


@pytest.mark.parametrize("kind", Kind)
def test_each_table_is_in_the_rights_of_a_kind_or_left_out_of_them(
    owner: Connection, roles: RoleUrls, kind: Kind
) -> None:
    tables = {table.name for table in METADATA.sorted_tables}

    assert tables - {one.table for one in granted(owner, roles.role(kind))} == WITHOUT_RIGHTS[kind]


def test_nobody_else_may_do_anything(owner: Connection) -> None:
    found = owner.execute(
        """
        SELECT c.relname FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
         WHERE c.relnamespace = 'turnstile'::regnamespace AND a.grantee = 0
        UNION ALL
        SELECT p.proname FROM pg_proc p CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE p.pronamespace = 'turnstile'::regnamespace AND a.grantee = 0 AND p.prosecdef
        """
    ).fetchall()

    assert found == []
