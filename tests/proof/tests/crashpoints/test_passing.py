"""What a fault does at a point. That it strikes is seen in each run: a cell whose fault does not strike is not clean."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.proof.crashpoints.passing import CrashPointError, FaultKind, Plan, Strike, arm, pass_await
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError
from turnstile.worker.session_lock import Guard

POINT = "turnstile.statements.claim.claim: fetch_pipelined"


class Done:
    """Counts how often it was really done."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> str:
        self.times += 1
        return "done"


class Faults:
    """What this process is to be struck by."""

    def __init__(self) -> None:
        self.flushes = 0
        self._ends = os.pipe()

    def plan(self, struck: Strike) -> None:
        arm(Plan([struck], self._ends[1], self._flush, announce=()))

    def _flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        arm(None)
        for end in self._ends:
            os.close(end)


@pytest.fixture
def faults() -> Iterator[Faults]:
    made = Faults()
    yield made
    made.close()


def strike(fault: FaultKind, point: str = POINT, **fields: Any) -> Strike:
    return Strike(point=point, fault=fault, **{"answered_by": "postgres", **fields})


async def test_a_bug_is_raised_instead_of_the_await(faults: Faults) -> None:
    done = Done()
    faults.plan(strike(FaultKind.EXCEPTION))

    with pytest.raises(CrashPointError):
        await pass_await(POINT, done)

    assert done.times == 0


async def test_a_hang_ends_only_by_cancellation(faults: Faults) -> None:
    done = Done()
    faults.plan(strike(FaultKind.HANG))
    hanging = asyncio.create_task(pass_await(POINT, done))
    await asyncio.wait({hanging}, timeout=0.01)

    hanging.cancel()

    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert done.times == 0


@pytest.mark.parametrize(
    ("point", "answered_by", "shown"),
    [
        ("turnstile.backends.postgres.database.Database._send: run", "postgres", psycopg.OperationalError),
        (POINT, "postgres", DatabaseUnavailableError),
        ("turnstile.worker.received_message.Delivery._delete_many: delete", "sqs", QueueUnavailableError),
    ],
)
async def test_a_lost_answer_is_done_and_shows_what_it_shows_at_its_layer(
    faults: Faults, point: str, answered_by: str, shown: type[Exception]
) -> None:
    done = Done()
    faults.plan(strike(FaultKind.LOST, point, answered_by=answered_by))

    with pytest.raises(shown):
        await pass_await(point, done)

    assert done.times == 1


async def test_a_lost_answer_may_show_as_a_value(faults: Faults) -> None:
    point = "turnstile.worker.processor.Processor._lock: acquire"
    faults.plan(strike(FaultKind.LOST, point, answered_by="redis"))

    assert await pass_await(point, Done()) is Guard.UNANSWERED


async def test_a_lost_answer_of_redis_is_an_error_for_each_command(faults: Faults) -> None:
    point = "turnstile.worker.session_lock.SessionLock._run: run"
    faults.plan(strike(FaultKind.LOST, point, answered_by="redis"))

    async def run() -> list[int]:
        return [1, 0]

    assert [type(shown) for shown in await pass_await(point, run)] == [RedisConnectionError, RedisConnectionError]


async def test_redis_is_flushed_in_the_same_moment(faults: Faults) -> None:
    faults.plan(strike(FaultKind.EXCEPTION, flush=True))

    with pytest.raises(CrashPointError):
        await pass_await(POINT, Done())

    assert faults.flushes == 1
