"""Real worker processes, started and ended by the tests."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.e2e.harness import Product, WorkerProcess
from tests.support.outside import outside
from turnstile.config.settings import Settings

FOLDER = Path(__file__).parent
IN_EACH_RUN = {"test_crashes.py", "test_order_and_exclusion.py"}
"""The product exists for these, so `make test` runs them. The others are long: `make test` has to fit into ten minutes of CI."""

EVIDENCE = """
CREATE TABLE evidence (
    id bigint GENERATED ALWAYS AS IDENTITY, turn_id uuid, session_id text, seq bigint, attempt int, fence bigint,
    pid int, what text, at timestamptz);
GRANT ALL ON evidence TO PUBLIC
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A file with another name would leave `make test` in silence.
    if gone := [name for name in IN_EACH_RUN if not (FOLDER / name).exists()]:
        raise pytest.UsageError(f"IN_EACH_RUN names files that do not exist: {gone}; correct {__file__}")
    for item in items:
        if item.path.is_relative_to(FOLDER) and item.path.name not in IN_EACH_RUN:
            item.add_marker("long")


@pytest.fixture
def evidence(settings: Settings) -> Iterator[None]:
    """A table in which the test's handler records what it did."""
    with psycopg.connect(outside(settings.database_url), autocommit=True) as connection:
        connection.execute(EVIDENCE)
    yield
    # A database that still has the table is not used again.
    with suppress(psycopg.Error), psycopg.connect(outside(settings.database_url), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '2s'")
        connection.execute("DROP TABLE evidence")


@pytest.fixture
async def product(settings: Settings, evidence: None) -> AsyncIterator[Product]:
    """The product, as its users have it: submit on one side, look at the rows on the other."""
    async with Product.open(settings) as opened:
        yield opened


StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def start_worker(product: Product, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts worker processes; what still runs at the end of the test is killed."""
    started: list[WorkerProcess] = []

    def start(command: str = "worker", **environment: str) -> WorkerProcess:
        worker = WorkerProcess(tmp_path, product.settings, environment, command)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
