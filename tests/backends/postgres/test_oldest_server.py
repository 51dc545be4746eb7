"""A turn's way on the oldest PostgreSQL that this machine's packages bring. `make test-servers` runs far more on it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.claims import claimed, replies, settle_one, submit_turns
from tests.support.stacks.packaged import find_packaged, maker_of
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.postgres import VERSION
from turnstile.dev.stack.run_as import choose
from turnstile.ops.doctor.checks import CHECKS
from turnstile.ops.doctor.read_database import ask
from turnstile.ops.doctor.run_checks import make_terms
from turnstile.ops.migration_run import apply
from turnstile.statements.advance_fences import ADVANCE

PACKAGED = find_packaged()

pytestmark = [
    pytest.mark.skipif(not PACKAGED or min(PACKAGED) >= VERSION, reason="no package of an older PostgreSQL"),
    pytest.mark.not_on("containers", "it is about a server of this machine"),
]


@pytest.fixture
def oldest(tmp_path: Path) -> Iterator[DatabasePlace]:
    """Migrated tables on that server, which stops after the test."""
    run_as = choose(tmp_path)
    server = maker_of(PACKAGED[min(PACKAGED)])(tmp_path, run_as, choose_free(), "a-password", {}, durable=False)
    server.start()
    try:
        apply(place := DatabasePlace(server.url))
        yield place
    finally:
        server.stop(immediate=True)
        shutil.rmtree(run_as.folder, ignore_errors=True)


async def test_a_turn_is_answered_and_every_check_of_the_doctor_runs(settings: Settings, oldest: DatabasePlace) -> None:
    with psycopg.connect(oldest.url) as connection:
        assert connection.info.server_version // 10_000 == min(PACKAGED)

    async with Database(oldest, "worker", size=2, pinned=True, first=ADVANCE) as database:
        await submit_turns(database, settings, "hello")
        await settle_one(database, settings, await claimed(database, settings))

        assert len(await replies(database)) == 1
        for check in CHECKS:
            if check.statement is not None:
                assert await ask(database, check.statement, make_terms(settings)) == []
