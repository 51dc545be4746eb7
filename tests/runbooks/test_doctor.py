"""A session that nobody takes, dead letters that a killed drop left behind, and a role without a time-out."""

import psycopg

from tests.ops.dead_turns import make_dead
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import make_pending
from tests.support.waiting_turns import make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(
    reader: Reader, database: Database, settings: Settings, queues: MessageQueues, roles: RoleUrls, stack: Stack
) -> None:
    await make_worker(database, settings)
    await make_dead(database, queues, settings, ["a"])
    await database.fetch("UPDATE turns SET dropped_at = now(), dropped_by = 'ada'", {})
    stuck = await make_pending(database, settings, "stuck")
    await database.fetch("UPDATE turns SET sends = 9, send_at = now() + interval '1 h' WHERE status = 'PENDING'", {})
    reader.names |= {
        "TURN": str(stuck),
        "DATABASE turnstile": f"DATABASE {roles.name}",
        "turnstile_operator": roles.application_role,
    }

    for line in ("turnstile doctor", "turnstile doctor", "turnstile doctor --json"):
        seen = await reader.up_to(line, code=ExitCode.FINDINGS)
        assert all(code in seen.out for code in ("session-stuck", "dead-letters-outlived"))
    assert "repaired" in (await reader.up_to("turnstile doctor --fix")).err
    [row] = await database.fetch("SELECT send_at <= now() AS due FROM turns WHERE id = %(id)s", {"id": stuck})
    assert row["due"]
    await reader.up_to("turnstile doctor --no-dlq")

    with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
        superuser.execute("ALTER SYSTEM SET idle_in_transaction_session_timeout = 0")
        superuser.execute("SELECT pg_reload_conf()")
        await reader.to_the_end()
        superuser.execute("ALTER SYSTEM RESET idle_in_transaction_session_timeout")
        superuser.execute("SELECT pg_reload_conf()")
