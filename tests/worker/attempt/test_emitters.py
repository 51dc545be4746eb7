"""The voice of a worker: who has something to say is let say it, also at the worker's end, and nobody is kept after that."""

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
    """Answers when the test says so."""

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


async def test_who_has_said_all_is_kept_no_longer(emitters: Emitters, writer: Writer) -> None:
    emitter = emitters.begin(CLAIMED)
    emitter.settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()
    assert list(emitters._speaking) == [emitter]

    writer.asked[0][1].set_result(Appended.APPENDED)
    await turn_loop()

    assert not emitters._speaking


async def test_the_end_waits_for_what_is_being_said(emitters: Emitters, writer: Writer) -> None:
    emitters.begin(CLAIMED).settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()
    ending = asyncio.create_task(emitters.close())
    await turn_loop()
    assert not ending.done()

    writer.asked[0][1].set_result(Appended.APPENDED)

    await ending


async def test_and_no_longer_than_it_takes_somebody_who_is_heard(emitters: Emitters, writer: Writer) -> None:
    emitter = emitters.begin(CLAIMED)
    emitter.settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()

    async with asyncio.timeout(LAST_CALL_SECONDS + 10):
        await emitters.close()

    writer.asked[0][1].set_result(Appended.AWAY)
    await turn_loop()
    assert len(writer.asked) == 1


async def test_the_end_of_an_invocation_waits_for_the_last_word_also_where_another_is_on_its_way(
    emitters: Emitters, writer: Writer
) -> None:
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


async def test_a_bug_in_the_writing_costs_the_events_and_keeps_nobody(emitters: Emitters, writer: Writer) -> None:
    emitters.begin(CLAIMED).settled(TurnStatus.SUCCEEDED, SUCCEEDED)
    await turn_loop()

    writer.asked[0][1].set_exception(ValueError("a bug of ours"))
    await turn_loop()

    assert not emitters._speaking
    assert len(writer.asked) == 1
