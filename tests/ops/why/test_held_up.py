"""`turnstile why` of a turn that others hold up: a transaction, a turn that blocks its worker, a turn that runs alone."""

from typing import Any

from tests.support.row_locks import rows_locked
from tests.support.tampered_turns import MARKED_AS_LOST, make_pending, make_running, tamper
from tests.support.waiting_turns import make_claimed, make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_a_locked_row_is_blamed_on_its_transaction_and_on_no_relay(
    database: Database, settings: Settings, why: Any
) -> None:
    await make_worker(database, settings)
    waits = await make_pending(database, settings)
    runs = await make_running(database, settings, "running")
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '1 h' WHERE status = 'PENDING'")
    await tamper(settings, "UPDATE turns SET lease_until = now() + interval '1 h' WHERE status = 'RUNNING'")

    with rows_locked(settings) as transaction:
        pid, user = transaction.info.backend_pid, transaction.info.user
        # An operator's role does not see when somebody else's transaction began.
        may_see = {"DATABASE_URL": settings.database_url}
        found, running = await why(waits, **may_see), await why(runs)
    with rows_locked(settings, table="sessions"):
        unhindered, can_not_end = await why(waits), await why(runs)

    reason = found["reason"]
    assert (reason["code"], reason["pid"], reason["user_name"], reason["running_in"]) == ("locked", pid, user, None)
    assert reason["since"] is not None
    assert running["reason"]["since"] is None
    assert found["commands"] == [f'psql "$OWNER_URL" -c "SELECT pg_terminate_backend({pid})"']
    assert (running["reason"]["code"], running["reason"]["running_in"]) == ("locked", "worker-a")
    # A claim needs no lock of the session, a settle does.
    assert (unhindered["reason"]["code"], can_not_end["reason"]["code"]) == ("not-sent", "locked")


async def test_a_turn_whose_worker_another_turn_blocks_is_not_to_be_canceled(
    database: Database, settings: Settings, why: Any
) -> None:
    guilty, innocent = [await make_claimed(database, settings, name, "worker-a") for name in ("guilty", "innocent")]
    await tamper(settings, "UPDATE turns SET lease_until = now() + interval '1 h'")
    await make_worker(database, settings, blocked_for_seconds=34.0, blocked_by=guilty)

    found = await why(innocent)

    assert (found["reason"]["code"], found["reason"]["block"]["by"]) == ("running", str(guilty))
    assert f"whose event loop turn {guilty} blocks since" in found["lines"][1]
    assert found["commands"] == []


async def test_a_lost_turn_waits_in_quarantine_for_its_turn_to_run_alone(
    database: Database, settings: Settings, why: Any
) -> None:
    await make_worker(database, settings, "worker-b")
    crashed, lost = await make_claimed(database, settings, "a", "worker-b"), await make_running(database, settings, "b")
    await tamper(settings, MARKED_AS_LOST)
    await database.fetch("UPDATE turns SET crashes = 1 WHERE true", {})
    await database.fetch(
        "UPDATE turns SET lease_until = now() + interval '1 h', send_at = NULL WHERE id = %(id)s", {"id": crashed}
    )

    found = await why(lost)

    assert (found["reason"]["code"], found["reason"]["obstacle"]["code"]) == ("lost", "quarantined")
    assert "It waits its turn, to run alone" in "".join(found["lines"])
