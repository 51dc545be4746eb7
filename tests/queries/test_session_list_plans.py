"""A page of sessions reads an index: as many rows among very many sessions as among few."""

from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from tests.statements.plans.touched import execute, prepare
from tests.support.process_roles import url_of
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind
from turnstile.queries.session_lists import FIRST_PAGE, NEXT_PAGE, list_sessions

SESSIONS = 8000
PAGE = 20
WAITING = 100
MOST_ROWS = 6 * PAGE
LONG = 500

# Every session has two turns, and one in a hundred an open one. Another tenant has as many. One session has many turns.
TURNS: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, finished_at, expires_at, trace_id, span_id, created_at,
                   queued_at)
SELECT md5(v.tenant || g || v.seq)::uuid, v.tenant, 's' || g, v.seq, 'q',
       CASE WHEN g %% %(waiting)s = 0 AND v.seq = 2 THEN 'PENDING' ELSE 'SUCCEEDED' END,
       CASE WHEN g %% %(waiting)s = 0 AND v.seq = 2 THEN now() END,
       CASE WHEN g %% %(waiting)s = 0 AND v.seq = 2 THEN NULL ELSE now() END,
       now(), md5(g::text), 's', v.at, v.at
  FROM generate_series(1, %(sessions)s) g
 CROSS JOIN LATERAL (VALUES ('t', 1, now() - make_interval(mins => g)), ('t', 2, now() - make_interval(secs => g)),
                            ('u', 1, now() - make_interval(mins => g)), ('u', 2, now() - make_interval(secs => g)))
       v (tenant, seq, at)
UNION ALL
SELECT md5('long' || g)::uuid, 't', 's1', 10 + g, 'q', 'SUCCEEDED', NULL, now(), now(), md5(g::text), 's',
       now() + make_interval(secs => g), now() + make_interval(secs => g) FROM generate_series(1, %(long)s) g
"""
OF_SESSIONS: LiteralString = (
    "INSERT INTO sessions (tenant_id, session_id) SELECT DISTINCT tenant_id, session_id FROM turns"
)


@pytest.fixture
def crowded(settings: Settings) -> Iterator[psycopg.Connection]:
    """A connection with the API's role."""
    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(TURNS, {"sessions": SESSIONS, "waiting": WAITING, "long": LONG})
        connection.execute(OF_SESSIONS)
        connection.execute("ANALYZE")
    api = conninfo(DatabasePlace(url_of(Kind.API, settings.database_url)), "test")
    with psycopg.connect(api, autocommit=True) as connection:
        connection.execute("SELECT set_config('turnstile.tenants', 't', false)")
        yield connection


class Asked:
    """Takes down the statements instead of running them."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}

    async def fetch(self, statement: LiteralString, parameters: Any) -> list[Any]:
        self.calls[statement] = parameters
        return []


async def ask(statement: LiteralString, before: Any = None) -> Any:
    asked = Asked()
    database: Any = asked
    await list_sessions(database, "t", limit=PAGE, before=before)
    return asked.calls[statement]


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_a_page_reads_the_turns_of_its_sessions_and_no_others(crowded: psycopg.Connection, plan: str) -> None:
    crowded.execute(f"SET plan_cache_mode = {plan}")  # type: ignore[arg-type] # one of two words
    # The sessions behind the long one: each page reads on where the last one has ended.
    [(middle,)] = crowded.execute("SELECT created_at FROM turns WHERE seq = 2 AND session_id = 's4000'").fetchall()
    next_page = await ask(NEXT_PAGE, (middle, UUID(int=2**128 - 1)))
    prepare(crowded, "next_page", NEXT_PAGE)
    prepare(crowded, "first_page", FIRST_PAGE)

    assert execute(crowded, "next_page", NEXT_PAGE, next_page).rows <= MOST_ROWS
    # A busy session costs a look at each of its turns that is newer than the page's last session.
    assert execute(crowded, "first_page", FIRST_PAGE, await ask(FIRST_PAGE)).rows <= MOST_ROWS + LONG
