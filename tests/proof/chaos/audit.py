"""The audit table: every change of a turn, written by a trigger in the transaction that made the change.

The product knows nothing of it, so it can't be fooled by what the product believes. A transaction that is rolled back
leaves nothing; one whose COMMIT answer got lost leaves its rows.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg.rows import dict_row

from tests.proof.chaos import memory_audit

INSTALL: LiteralString = """
CREATE TABLE audit_turns (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    turn_id uuid NOT NULL, tenant text NOT NULL, session text NOT NULL, seq bigint,
    before text, after text NOT NULL, attempt_before int, attempt int NOT NULL, failures int NOT NULL, crashes int NOT NULL,
    generation int NOT NULL, fence_before bigint, fence bigint NOT NULL, worker text,
    lease_until timestamptz, lease_before timestamptz, execute_at timestamptz, send_at timestamptz,
    cancel_requested boolean NOT NULL, error_class text);

-- Of an insert, OLD is null.
CREATE FUNCTION audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_turns (turn_id, tenant, session, seq, before, after, attempt_before, attempt, failures, crashes, generation,
                       fence_before, fence, worker, lease_until, lease_before, execute_at, send_at, cancel_requested,
                       error_class)
    VALUES (NEW.id, NEW.tenant_id, NEW.session_id, NEW.seq, OLD.status, NEW.status, OLD.attempt, NEW.attempt, NEW.failures,
            NEW.crashes, NEW.generation, OLD.fence, NEW.fence, NEW.worker_id, NEW.lease_until, OLD.lease_until,
            NEW.execute_at, NEW.send_at, NEW.cancel_requested_at IS NOT NULL, NEW.error_class);
    RETURN NULL;
END $$;

CREATE TABLE audit_halts (
    n bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('audit_turns', 'n')),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    tenant text NOT NULL, session text NOT NULL, before uuid, after uuid);

CREATE FUNCTION audit_halt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_halts (tenant, session, before, after)
    VALUES (NEW.tenant_id, NEW.session_id, OLD.halted_by, NEW.halted_by);
    RETURN NULL;
END $$;

CREATE TABLE audit_joins (
    n bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('audit_turns', 'n')),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn_id uuid NOT NULL, after uuid[], policy text, expires_at timestamptz NOT NULL);

CREATE FUNCTION audit_join() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_joins (turn_id, after, policy, expires_at)
    VALUES (NEW.id, NEW.joining, NEW.join_policy, NEW.expires_at);
    RETURN NULL;
END $$;

CREATE TRIGGER audit_join AFTER UPDATE OF joining ON turns FOR EACH ROW
    WHEN (OLD.joining IS DISTINCT FROM NEW.joining) EXECUTE FUNCTION audit_join();

CREATE TRIGGER audit_halt AFTER UPDATE OF halted_by ON sessions FOR EACH ROW
    WHEN (OLD.halted_by IS DISTINCT FROM NEW.halted_by) EXECUTE FUNCTION audit_halt();

CREATE TRIGGER audit_insert AFTER INSERT ON turns FOR EACH ROW EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit_update AFTER UPDATE ON turns FOR EACH ROW
    WHEN (OLD.status <> NEW.status OR OLD.fence <> NEW.fence OR OLD.generation <> NEW.generation
          OR OLD.seq IS DISTINCT FROM NEW.seq OR OLD.cancel_requested_at IS DISTINCT FROM NEW.cancel_requested_at)
    EXECUTE FUNCTION audit_change();
"""

COLLECT: dict[str, LiteralString] = {
    "audit": """
        SELECT n, extract(epoch FROM at)::float8 AS at, txid, turn_id::text, tenant, session, seq, before, after,
               attempt_before, attempt, failures, crashes, generation, fence_before, fence, worker,
               extract(epoch FROM lease_until)::float8 AS lease_until, extract(epoch FROM lease_before)::float8 AS lease_before,
               extract(epoch FROM execute_at)::float8 AS execute_at, extract(epoch FROM send_at)::float8 AS send_at,
               cancel_requested, error_class
          FROM audit_turns ORDER BY n""",
    "halts": """
        SELECT n, extract(epoch FROM at)::float8 AS at, txid, tenant, session, before::text, after::text
          FROM audit_halts ORDER BY n""",
    "joins": """
        SELECT n, extract(epoch FROM at)::float8 AS at, turn_id::text, after::text[], policy,
               extract(epoch FROM expires_at)::float8 AS expires_at
          FROM audit_joins ORDER BY n""",
    "turns": """
        SELECT id::text AS turn_id, tenant_id AS tenant, session_id AS session, seq, status, attempt, failures, crashes,
               max_attempts, generation, fence, extract(epoch FROM lease_until)::float8 AS lease_until,
               extract(epoch FROM send_at)::float8 AS send_at,
               cancel_requested_at IS NOT NULL AS cancel_requested, error_class,
               extract(epoch FROM dead_lettered_at)::float8 AS dead_lettered_at,
               extract(epoch FROM created_at)::float8 AS created_at,
               extract(epoch FROM finished_at)::float8 AS finished_at,
               kind, parent_turn_id::text AS parent, child_key, webhook_url IS NOT NULL AS webhook
          FROM turns ORDER BY tenant_id, session_id, seq, id""",
    "messages": "SELECT turn_id::text, ordinal, role, kind, content FROM messages ORDER BY turn_id, ordinal",
    "attempts": """
        SELECT turn_id::text, attempt, fence, generation, worker_id AS worker,
               extract(epoch FROM started_at)::float8 AS started_at,
               extract(epoch FROM finished_at)::float8 AS finished_at, outcome, error_class
          FROM turn_attempts ORDER BY turn_id, fence""",
    "values": """
        SELECT turn_id::text, key, value, fence, extract(epoch FROM created_at)::float8 AS at
          FROM turn_values ORDER BY turn_id, key""",
    "webhooks": """
        SELECT turn_id::text, generation, event, extract(epoch FROM due_at)::float8 AS due_at, tries,
               extract(epoch FROM delivered_at)::float8 AS delivered_at, error
          FROM webhooks ORDER BY turn_id, generation""",
    **memory_audit.COLLECT,
}


def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(INSTALL)
        connection.execute(memory_audit.INSTALL)


def collect(url: str, folder: Path) -> None:
    """Writes what the triggers and tables of a database say to `folder`, as `checker.evidence` wants it."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        for name, statement in COLLECT.items():
            with connection.cursor(name=name) as cursor, (folder / f"{name}.jsonl").open("w") as file:
                file.writelines(_lines(cursor.execute(statement)))


def _lines(rows: psycopg.ServerCursor[dict[str, object]]) -> Iterator[str]:
    rows.itersize = 5000
    for row in rows:
        yield json.dumps(row) + "\n"
