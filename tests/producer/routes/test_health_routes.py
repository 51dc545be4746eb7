"""The check of the database for /readyz: its answer, and the reason in the log."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from turnstile.backends import shared_answer
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.routes import health_routes
from turnstile.producer.routes.health_routes import readiness_of


class Scripted:
    """A database whose pings end as `troubles` says."""

    def __init__(self, *troubles: Exception | None) -> None:
        self._troubles = list(troubles)

    async def ping(self) -> None:
        trouble = self._troubles.pop(0)
        if trouble is not None:
            raise trouble


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request asks again."""
    monkeypatch.setattr(shared_answer, "HOLD_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_each_change_is_a_line_of_the_log_with_its_reason() -> None:
    away, full = DatabaseUnavailableError("connection refused"), DatabaseUnavailableError("too many clients")
    database: Any = Scripted(None, away, away, full, None, None)
    is_ready = readiness_of(database)

    with capture_logs() as lines:
        answers = [await is_ready() for _ in range(6)]

    assert answers == [True, False, False, False, True, True]
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("api.not_ready", "connection refused"),
        ("api.not_ready", "too many clients"),
        ("api.ready", None),
    ]


async def test_a_process_with_too_much_to_do_stays_ready() -> None:
    database: Any = Scripted(ConnectionsBusyError("busy"))

    assert await readiness_of(database)()


async def test_requests_one_after_another_share_a_ping() -> None:
    database: Any = Scripted(None)
    is_ready = readiness_of(database)

    assert [await is_ready() for _ in range(10)] == [True] * 10


async def test_a_ping_without_a_response_counts_as_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_routes, "PATIENCE_SECONDS", 0.01)

    class Silent:
        async def ping(self) -> None:
            await asyncio.Event().wait()

    database: Any = Silent()
    assert not await readiness_of(database)()
