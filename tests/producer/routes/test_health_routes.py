"""The check of the database for /readyz."""

import asyncio
from typing import Any

import pytest

from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.routes import health_routes
from turnstile.producer.routes.health_routes import probe_of


class Pinged:
    """A database that counts its pings."""

    pings = 0

    async def ping(self) -> None:
        self.pings += 1


async def test_concurrent_callers_share_one_ping() -> None:
    database: Any = Pinged()
    check = probe_of(database)

    await asyncio.gather(*(check(None) for _ in range(100)))
    assert database.pings == 1

    await check(None)
    assert database.pings == 2


async def test_a_ping_without_a_response_counts_as_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_routes, "PATIENCE_SECONDS", 0.01)

    class Silent:
        async def ping(self) -> None:
            await asyncio.Event().wait()

    database: Any = Silent()
    with pytest.raises(DatabaseUnavailableError, match="no response"):
        await probe_of(database)(None)
