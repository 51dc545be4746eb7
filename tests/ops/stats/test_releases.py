"""Which release of the handler did it: on workers, on attempts, on groups of failures."""

import json

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.support.factories import make_worker_record
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.worker_registry import announce


async def test_the_command_workers_shows_the_release_of_each_worker(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    for name, release in (("wanda", "r7"), ("xenia", "r8")):
        await announce(database, make_worker_record(settings.queue, name, release=release))

    ran = await turnstile("workers", "--json")
    shown = await turnstile("workers")

    found = {worker["worker_id"]: worker["release"] for worker in json.loads(ran.out)["workers"]}
    assert found == {"wanda": "r7", "xenia": "r8"}
    assert ["r8" in line.split() for line in shown.out.splitlines()] == [False, False, True]


async def test_an_attempt_shows_the_release_that_it_ran_in(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    [turn] = await make_failed(database, settings, ["a"], release="r8")

    ran = await turnstile("status", str(turn), "--json")
    shown = await turnstile("dlq", "show", str(turn))

    assert [attempt["release"] for attempt in json.loads(ran.out)["attempts"]] == ["r8"]
    assert "r8" in shown.out.split()


async def test_a_group_of_failures_is_counted_by_release(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"], release="r7")
    await make_failed(database, settings, ["b", "c"], release="r8")
    await make_failed(database, settings, ["d"], error_class="Other")

    ran = await turnstile("dlq", "list", "--groups", "--json")
    shown = await turnstile("dlq", "list", "--groups")

    groups = {group["error_class"]: group["releases"] for group in json.loads(ran.out)["groups"]}
    assert groups == {"ValueError": {"r8": 2, "r7": 1}, "Other": {"": 1}}
    assert "r8 2, r7 1" in shown.out
