"""`turnstile doctor` as a command: its exit codes, its document, and what `--fix` does."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from tests.e2e.conftest import StartWorker, evidence, product, start_worker
from tests.e2e.harness import Product
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead
from tests.support.tampered_turns import FRUITLESS, MARKED_AS_LOST, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.advance_fences import read_last_fence
from turnstile.streaming.event import name_stream

__all__ = ["evidence", "product", "start_worker"]


@dataclass(frozen=True)
class Answer:
    """The result of the command."""

    code: int | None
    document: dict[str, Any]
    err: str

    @property
    def fixed(self) -> dict[str, bool | None]:
        """Whether each finding was repaired, by its code."""
        return {one["code"]: one["fixed"] for one in self.document["findings"]}


Doctor = Callable[..., Awaitable[Answer]]


@pytest.fixture
def doctor(turnstile: Turnstile) -> Doctor:
    async def ask(*arguments: str) -> Answer:
        ran = await turnstile("doctor", "--json", *arguments)
        return Answer(ran.code, json.loads(ran.out), ran.err)

    return ask


async def test_nothing_is_found_on_a_system_at_work(
    doctor: Doctor, product: Product, start_worker: StartWorker
) -> None:
    start_worker(TURNSTILE_CONCURRENCY="8")
    for number in range(8):
        await product.submit(*[{"do": "sleep", "seconds": 0.1}] * 3, session=f"s{number}")

    answers = [await doctor()]
    while await product.rows("status IN ('PENDING', 'RUNNING')"):
        answers.append(await doctor())

    assert [answer.fixed for answer in answers if answer.fixed] == []
    assert {(answer.code, answer.document["complete"]) for answer in answers} == {(0, True)}


async def test_a_database_without_tables_is_not_looked_at(doctor: Doctor, turnstile: Turnstile) -> None:
    await turnstile("migrate", "--down", "--revision", "base", "--yes")

    answer = await doctor()

    assert (answer.code, answer.document["complete"]) == (4, False)
    [finding] = answer.document["findings"]
    assert finding["code"] == "not-looked-at"
    assert "turnstile migrate" in finding["detail"]


async def test_a_turn_that_is_repaired_twice_is_answered_once(
    doctor: Doctor, product: Product, start_worker: StartWorker
) -> None:
    await make_running(product.database, product.settings, "lost")
    await product.submit("hello", session="stuck", send=False)
    await tamper(product.settings, MARKED_AS_LOST)
    await tamper(product.settings, FRUITLESS)

    first, _ = await doctor("--fix", "--yes"), await doctor("--fix", "--yes")
    start_worker()
    await product.all_in("SUCCEEDED")

    assert (first.code, first.fixed) == (0, {"running-past-lease": True, "session-stuck": True})
    assert sorted(row["attempt"] for row in await product.rows()) == [1, 2]
    await product.check_sessions()
    assert (await doctor()).fixed == {}


async def test_fences_that_only_redis_has_seen_are_left_behind(
    doctor: Doctor, database: Database, settings: Settings, keys: Redis
) -> None:
    """As after a restore, where the clock of the new server is slow."""
    seen = time.time_ns() // 1000 + 10**9
    stream = name_stream(settings.redis_prefix, "t", "s", uuid4())
    await keys.xadd(stream, {"kind": "status", "data": "{}"}, id=f"{seen}-1")

    found, fixed, after = await doctor(), await doctor("--fix", "--yes"), await doctor()

    assert (found.code, found.fixed) == (5, {"fences-behind": None})
    assert (fixed.code, fixed.fixed) == (0, {"fences-behind": True})
    assert (after.code, after.fixed) == (0, {})
    assert await read_last_fence(database) > seen


async def test_fences_beyond_what_can_be_drawn_are_not_repaired_and_hide_no_other_repair(
    doctor: Doctor, database: Database, settings: Settings, keys: Redis
) -> None:
    await make_running(database, settings, "lost")
    await tamper(settings, MARKED_AS_LOST)
    stream = name_stream(settings.redis_prefix, "t", "s", uuid4())
    await keys.xadd(stream, {"kind": "status", "data": "{}"}, id=f"{2**53}-1")

    answer = await doctor("--fix", "--yes")

    assert (answer.code, answer.fixed) == (5, {"fences-behind": False, "running-past-lease": True})
    assert "the fences were not advanced: " in answer.err


async def test_dead_letters_whose_turns_have_moved_on_are_swept(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["dead", "canceled"])
    await tamper(settings, "UPDATE turns SET status = 'CANCELED' WHERE session_id = 'canceled'")

    fixed, after = await doctor("--fix", "--yes"), await doctor()

    assert (fixed.code, fixed.fixed) == (5, {"dead-letters-waiting": None, "dead-letters-outlived": True})
    assert list(after.fixed) == ["dead-letters-waiting"]
    assert await queues.count(settings.queue, dead=True) == 1


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_dead_letter_that_sqs_does_not_delete_is_not_repaired(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await tamper(settings, "UPDATE turns SET status = 'CANCELED', dead_lettered_at = NULL")

    answer = await doctor("--fix", "--yes")

    assert (answer.code, answer.fixed) == (5, {"dead-letters-outlived": False})
    assert "SQS did not delete 1 dead letter of" in answer.err
