"""Workers of two versions side by side, then of one."""

from collections.abc import Callable

from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.tampered_turns import tamper
from tests.support.waiting_turns import make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_the_page(
    reader: Reader, database: Database, settings: Settings, emulated: Callable[[], Deployment]
) -> None:
    await reader.up_to("aws ecs run-task")
    ecs = emulated().client("ecs")
    [task] = ecs.list_tasks(cluster=NAME, family=f"{NAME}-migrate")["taskArns"]
    ecs.stop_task(cluster=NAME, task=task)
    await reader.up_to("aws ecs describe-tasks", TASK=task)

    await make_worker(database, settings, "old-1", draining=True)
    await tamper(settings, "UPDATE workers SET version = '0.0.9'")
    await make_worker(database, settings, "new-1", release="r8")
    seen = (await reader.up_to("turnstile workers")).out
    assert ("0.0.9" in seen, "draining" in seen, "r8" in seen) == (True, True, True)
    await reader.up_to("turnstile stats")

    await tamper(settings, "DELETE FROM workers WHERE draining")
    seen = (await reader.up_to("turnstile workers")).out
    assert ("0.0.9" in seen, "draining" in seen) == (False, False)
    await reader.to_the_end()
