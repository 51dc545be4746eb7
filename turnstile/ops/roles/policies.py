"""Row-level security: which rows the role of a kind sees and writes, table by table.

The API's role sees the rows of the tenants that its transaction has named (`backends.postgres.tenant_setting`). The other kinds
serve all tenants, and see all rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.sql import SQL, Composed, Identifier, Literal

from turnstile.ops.roles.kinds import Kind

# Not as an index has the column: a plan would find rows by their tenant, and not by the key that the statement has.
_OWN: LiteralString = """(tenant_id || '') = ANY (
    (SELECT string_to_array(coalesce(current_setting('turnstile.tenants', true), ''), ','))::text[])"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a role may read and write."""

    seen: LiteralString
    written: LiteralString
    """The condition on new rows."""


_ALL = Rows("true", "true")
_OF_TENANTS = Rows(_OWN, _OWN)

OF_API: Mapping[str, Rows] = {
    "sessions": _OF_TENANTS,
    "turns": _OF_TENANTS,
    # A turn of others is not seen there, either. OFFSET: a plan looks each turn up, and never reads all turns first.
    "messages": Rows("EXISTS (SELECT FROM turns t WHERE t.id = turn_id OFFSET 0)", "NOT is_of_other_tenant(turn_id)"),
    "submissions": _OF_TENANTS,
    "chosen_ids": _OF_TENANTS,
    "webhooks": _OF_TENANTS,
    "archived_turns": _OF_TENANTS,
    "memory_items": _OF_TENANTS,
    "erasures": _OF_TENANTS,
}
"""The tables that have row-level security. The API reads four others: `workers`, of which it sees the load, `turnstile_version`,
and `api_keys` and `browser_tokens`, in which it looks up a key or a token to learn its tenant."""

_REMEMBERS = "turnstile_version"
"""It has no row-level security: its policies only say which role is of which kind. Postgres keeps them right when a role is
renamed or dropped, and a way down to `base` leaves them."""

READ_KINDS: LiteralString = f"""
SELECT policyname::text, roles::text[] FROM pg_policies
 WHERE schemaname = current_schema() AND tablename = '{_REMEMBERS}' AND policyname = ANY (%s)
"""

READ_POLICIES: LiteralString = """
SELECT v.tablename::text, v.policyname::text, v.roles::text[], obj_description(p.oid, 'pg_policy')
  FROM pg_policies v JOIN pg_policy p
    ON p.polrelid = format('%I.%I', v.schemaname, v.tablename)::regclass AND p.polname = v.policyname
 WHERE v.schemaname = current_schema()
"""

Present = Mapping[tuple[str, str], tuple[Sequence[str], str | None]]
"""The roles and the comment of each policy, by table and name. The comment says what the policy was made from."""


def policy_statements(roles: Mapping[Kind, Sequence[str]], present: Present) -> Iterator[Composed]:
    """The statements that make the policies for the roles of each kind.

    The change of a policy locks its table, so what is there already is left alone.
    """
    for kind in Kind:
        # A submitter has no right on any table.
        for table in (*(() if kind is Kind.SUBMITTER else OF_API), _REMEMBERS):
            rows = OF_API.get(table, _ALL) if kind is Kind.API else _ALL
            names = sorted(roles.get(kind, ()))
            described = f"{rows.seen}; {rows.written}"
            found, made_from = present.get((table, kind), ((), None))
            if sorted(found) == names and (not names or made_from == described):
                continue
            where = {"policy": Identifier(kind), "table": Identifier(table)}
            yield SQL("DROP POLICY IF EXISTS {policy} ON {table}").format(**where)
            if names:
                make = "CREATE POLICY {policy} ON {table} TO {roles} USING ({seen}) WITH CHECK ({written})"
                terms = {"seen": SQL(rows.seen), "written": SQL(rows.written)}
                yield SQL(make).format(**where, **terms, roles=SQL(", ").join(map(Identifier, names)))
                yield SQL("COMMENT ON POLICY {policy} ON {table} IS {said}").format(**where, said=Literal(described))
