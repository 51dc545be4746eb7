"""Whether the database answers: asked once, however many want to know."""

import asyncio
from typing import Any

import pytest

from tests.support.probes import until
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.routes import readiness
from turnstile.producer.routes.readiness import DatabaseProbe


class Pinged:
    def __init__(self) -> None:
        self.pings = 0
        self.away = False

    async def ping(self) -> None:
        self.pings += 1
        if self.away:
            raise DatabaseUnavailableError("away")


def probe_of(database: Any) -> DatabaseProbe:
    return DatabaseProbe(database)


async def test_all_who_ask_within_a_second_get_one_answer() -> None:
    database = Pinged()
    probe = probe_of(database)

    await asyncio.gather(*(probe.check() for _ in range(100)))
    await probe.check()

    assert database.pings == 1


async def test_a_later_one_gets_a_new_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.05)
    database = Pinged()
    probe = probe_of(database)
    await probe.check()
    database.away = True

    async def told() -> bool:
        try:
            await probe.check()
        except DatabaseUnavailableError:
            return True
        return False

    await until(told)


async def test_one_who_goes_takes_nobodys_answer_along(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = asyncio.Event()
    database = Pinged()

    async def slowly() -> None:
        await answered.wait()

    monkeypatch.setattr(database, "ping", slowly)
    probe = probe_of(database)
    first, second = asyncio.create_task(probe.check()), asyncio.create_task(probe.check())
    await until(lambda: probe._asked is not None)
    first.cancel()
    await asyncio.wait({first})
    answered.set()

    await second
