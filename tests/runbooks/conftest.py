"""The reader of a page. A module is named after its page, and its test leaves no line of the page out."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.e2e.conftest import evidence, start_worker
from tests.e2e.harness import Product, process_environment
from tests.ops.conftest import Turnstile, environment, turnstile
from tests.runbooks.deployment import IMAGES, NAME, Deployment, emulated_deployment
from tests.runbooks.page import FOLDER, Step, read_steps
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.databases import Databases
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.roles.kinds import Kind

__all__ = ["environment", "evidence", "start_worker", "turnstile"]

COMMANDS_LEASE_SECONDS = 30
"""Longer than that of the tests' workers: no busy machine makes a worker silent."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "reader" in getattr(item, "fixturenames", ()):
            item.add_marker("long")


@pytest.fixture
def visibility_seconds() -> float:
    """Room for the lease of the commands."""
    return 60.0


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> list[Step]:
    """The steps of the page that the module is named after."""
    name = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    return read_steps((FOLDER / f"{name}.md").read_text())


@pytest.fixture
def roles(steps: list[Step], stack: Stack, databases: Databases) -> Iterator[RoleUrls]:
    """Where a page has SQL, those of infra/README.md, since a superuser may do everything."""
    if any(step.program in {"psql", "sql"} for step in steps):
        with database_with_roles(stack) as made:
            yield made
        return
    name = databases.take()
    url = databases.url(name)
    yield RoleUrls(name, url, url, url, dict.fromkeys(Kind, url))
    databases.give_back(name)


@pytest.fixture
def database_url(roles: RoleUrls) -> str:
    return roles.application


@pytest.fixture
async def database(stack: Stack, roles: RoleUrls) -> AsyncIterator[Database]:
    """Of a superuser, who makes the situation of a page and sees what became of it."""
    place = DatabasePlace(stack.postgres.database_url(roles.name))
    async with Database(place, "test", size=4, pinned=True, wait_seconds=30.0) as opened:
        yield opened


@pytest.fixture
def product(settings: Settings, database: Database, queues: MessageQueues, evidence: None) -> Product:
    """Its processes are of the application's role."""
    return Product(settings, database, queues)


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Deployment]]:
    """The deployment at AWS, made when a page first asks for it."""
    with ExitStack() as running:
        yield cache(lambda: running.enter_context(emulated_deployment(tmp_path_factory.mktemp("aws"))))


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked says yes."""
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True, readline=lambda: "y\n"))
    monkeypatch.setattr("turnstile.ops.terminal.options.sys", terminal)


@pytest.fixture
def reader(
    steps: list[Step],
    turnstile: Turnstile,
    environment: dict[str, str],
    settings: Settings,
    roles: RoleUrls,
    emulated: Callable[[], Deployment],
    at_a_terminal: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Reader]:
    """Follows the page that the module is named after."""
    monkeypatch.chdir(tmp_path)
    # A canary is looked at each second.
    monkeypatch.setattr("turnstile.ops.dead_letters.redriven_turns.LOOK_SECONDS", 0.05)
    environment |= {
        "TURNSTILE_LEASE_SECONDS": str(COMMANDS_LEASE_SECONDS),
        "TURNSTILE_MEMORY_REDIS_URL": settings.redis_url,
        "OWNER_URL": roles.master,
        "COLUMNS": "200",
    }
    served = process_environment(settings, "worker")
    reading = Reader(steps, turnstile, environment, served, emulated, tmp_path)
    reading.names |= {"QUEUE": settings.queue, "CLUSTER": NAME, "SERVICE": f"{NAME}-api", "DIGEST": "a" * 64}
    reading.names |= {"REPOSITORY": f"registry.example/{IMAGES}", "IMAGES": IMAGES}
    yield reading
    for process in reading.served:
        process.kill()
        process.join()
    assert reading.left == [], "the test leaves lines of its page out"
