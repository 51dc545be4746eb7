"""The emitters of a worker: their last events are waited for at the worker's end, for a limited time."""

import asyncio
from typing import Any, cast

import pytest

from tests.support.factories import CLAIMED
from tests.support.probes import turn_loop
from turnstile.config.settings import Settings
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.emitters import LAST_CALL_SECONDS, Emitters

SUCCEEDED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="bye")


class Writer:
    """Responds when the test decides."""

    def __init__(self) -> None:
        self.asked: list[tuple[Append, asyncio.Future[Appended]]] = []

    def append(self, append: Append) -> "asyncio.Future[Appended]":
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self.asked.append((append, answer))
        return answer


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def emitters(writer: Writer) -> Emitters:
    return Emitters(Settings(), cast("Any", writer))


async def test_closing_waits_for_a_limited_time(emitters: Emitters, writer: Writer) -> None:
    emitter = emitters.begin(CLAIMED)
    emitter.settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()

    async with asyncio.timeout(LAST_CALL_SECONDS + 10):
        await emitters.close()

    writer.asked[0][1].set_result(Appended.AWAY)
    await turn_loop()
    assert len(writer.asked) == 1


async def test_finishing_waits_for_the_last_event_behind_another_append(emitters: Emitters, writer: Writer) -> None:
    emitter = emitters.begin(CLAIMED)
    emitter.emit("text")
    await turn_loop()
    emitter.settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    finishing = asyncio.create_task(emitters.finish(LAST_CALL_SECONDS + 10))
    await turn_loop()
    writer.asked[0][1].set_result(Appended.APPENDED)
    await turn_loop()
    assert not finishing.done()

    writer.asked[1][1].set_result(Appended.APPENDED)
    await finishing

    assert [event.saying.kind.value for append, _ in writer.asked for event in append.events][-1] == "end"


async def test_a_bug_of_the_writer_costs_the_events_and_nothing_else(emitters: Emitters, writer: Writer) -> None:
    emitters.begin(CLAIMED).settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()

    writer.asked[0][1].set_exception(ValueError("a bug of ours"))
    await turn_loop()

    assert not emitters._speaking
    assert len(writer.asked) == 1
