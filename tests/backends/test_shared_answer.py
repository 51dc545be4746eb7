"""An answer that many callers share."""

import asyncio

import pytest

from tests.support.probes import until
from turnstile.backends.shared_answer import HOLD_SECONDS, SharedAnswer


class Server:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 0.0
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.shared = SharedAnswer(self.ask, lambda: self.now)

    async def ask(self) -> int:
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return self.asked


async def test_callers_at_the_same_time_share_one_answer() -> None:
    server = Server()
    server.answers.clear()
    callers = [asyncio.create_task(server.shared()) for _ in range(100)]
    await until(lambda: server.asked == 1)

    server.answers.set()

    assert await asyncio.gather(*callers) == [1] * 100


async def test_an_answer_holds_for_a_while() -> None:
    server = Server()
    answers = []
    for now in (0.0, HOLD_SECONDS * 0.99, HOLD_SECONDS, HOLD_SECONDS * 1.99):
        server.now = now
        answers.append(await server.shared())

    assert answers == [1, 1, 2, 2]


async def test_a_caller_that_gives_up_takes_the_answer_from_nobody() -> None:
    server = Server()
    server.answers.clear()
    first, second = asyncio.create_task(server.shared()), asyncio.create_task(server.shared())
    await until(lambda: server.asked == 1)

    first.cancel()
    server.answers.set()

    assert await second == 2


async def test_an_error_is_not_held() -> None:
    server = Server()
    server.error = ValueError()
    with pytest.raises(ValueError):  # noqa: PT011
        await server.shared()
    server.error = None

    assert await server.shared() == 2
