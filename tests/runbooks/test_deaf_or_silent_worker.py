"""One of five workers is deaf, one blocked, one starved, one silent for ten minutes, while turns wait; then they are replaced."""

from collections.abc import Callable

from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.tampered_turns import make_pending, tamper
from tests.support.waiting_turns import make_due_for_an_hour, make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode

HEARD_OF = "UPDATE workers SET deaf_for_seconds = 300 WHERE worker_id = 'deaf-1'"
BLOCKED = "UPDATE workers SET blocked_for_seconds = 12 WHERE worker_id = 'blocked-1'"
STARVED = "UPDATE workers SET starved_for_seconds = 600 WHERE worker_id = 'starved-1'"
NOT_HEARD_OF = "UPDATE workers SET seen_at = now() - interval '10 min' WHERE worker_id = 'silent-1'"


async def test_the_page(
    reader: Reader, database: Database, settings: Settings, emulated: Callable[[], Deployment]
) -> None:
    for worker in ("well-1", "deaf-1", "blocked-1", "starved-1", "silent-1"):
        await make_worker(database, settings, worker)
    await tamper(settings, HEARD_OF)
    await tamper(settings, BLOCKED)
    await tamper(settings, STARVED)
    await tamper(settings, NOT_HEARD_OF)
    turn = await make_pending(database, settings)

    seen = (await reader.up_to("turnstile workers")).out
    assert all(f" {state} " in seen for state in ("well", "deaf", "blocked", "starved", "silent"))
    await reader.up_to("turnstile queues list")
    await tamper(settings, "UPDATE workers SET seen_at = now() - interval '10 min'")
    await make_due_for_an_hour(settings)
    assert "no-worker" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out

    task = emulated().task()
    await reader.up_to("aws ecs stop-task", TASK=task)
    [stopped] = emulated().client("ecs").describe_tasks(cluster=NAME, tasks=[task])["tasks"]
    assert (stopped["desiredStatus"], stopped["stoppedReason"]) == ("STOPPED", "deaf")

    await reader.up_to("turnstile why", TURN=turn)
    assert "blocked_by" in (await reader.up_to("turnstile workers --json")).out
    # If a lock is held for long: the turn whose handler keeps it.
    await reader.up_to("turnstile why", TURN=turn)
    await reader.up_to("turnstile cancel", TURN=turn)

    await tamper(settings, "DELETE FROM workers")
    await make_worker(database, settings, "well-2")
    await tamper(settings, "DELETE FROM turns")
    assert "well" in (await reader.up_to("turnstile workers")).out
    await reader.to_the_end()
