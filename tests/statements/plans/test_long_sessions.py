"""The pinned plans that read one session: of a long one, they read only the turns that they need."""

import psycopg
import pytest

from turnstile.backends.postgres.database import conninfo, number_placeholders
from turnstile.config.settings import Settings
from turnstile.queries.history import VERSION
from turnstile.statements.read_claims import READ_CLAIMS

FILL = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, finished_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'o' || g, 1, 'q', CASE WHEN g % 2 = 0 THEN 'SUCCEEDED' ELSE 'FAILED' END, now(), now(),
       md5(g::text), 's'
  FROM generate_series(1, 5000) g
"""


@pytest.mark.parametrize("filled", [False, True], ids=["empty table", "full table"])
def test_the_running_and_the_last_answered_turn_are_read_by_index(settings: Settings, filled: bool) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        if filled:
            connection.execute(FILL)
            connection.execute("ANALYZE turns")
        plans = [
            connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}").fetchall()
            for statement in (READ_CLAIMS, VERSION)
        ]

    claims, version = ("\n".join(line.strip() for (line,) in plan) for plan in plans)
    assert (
        "Index Scan using turns_running on turns r\n"
        "Index Cond: ((tenant_id = w.tenant_id) AND (session_id = w.session_id))" in claims
    ), claims
    for text in (claims, version):
        assert "Index Scan Backward using turns_session_seq on turns a" in text
        assert "Sort Key: a.seq" not in text
