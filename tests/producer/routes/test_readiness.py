"""The check of the database for /readyz."""

import asyncio
from typing import Any

import pytest

from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.routes import readiness
from turnstile.producer.routes.readiness import probe_of


class Pinged:
    """A database that responds to every ping in the same way."""

    def __init__(self, response: BaseException | None = None) -> None:
        self._response = response
        self.pings = 0

    async def ping(self) -> None:
        self.pings += 1
        if self._response is not None:
            raise self._response


async def test_concurrent_callers_share_one_ping() -> None:
    database: Any = Pinged()
    check = probe_of(database)

    await asyncio.gather(*(check(None) for _ in range(100)))
    assert database.pings == 1

    await check(None)
    assert database.pings == 2


async def test_every_caller_gets_the_outage() -> None:
    database: Any = Pinged(DatabaseUnavailableError("away"))
    check = probe_of(database)

    found = await asyncio.gather(*(check(None) for _ in range(3)), return_exceptions=True)

    assert [type(error) for error in found] == [DatabaseUnavailableError] * 3


async def test_a_ping_without_a_response_counts_as_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.01)

    class Silent:
        async def ping(self) -> None:
            await asyncio.Event().wait()

    database: Any = Silent()
    with pytest.raises(DatabaseUnavailableError, match="no response"):
        await probe_of(database)(None)
