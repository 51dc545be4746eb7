"""Refused credentials in the audit: once a minute, for each address, and again if Postgres was away."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.producer.http import refused_keys
from turnstile.producer.http.refused_keys import RefusedKeys


def request_from(address: str) -> dict[str, Any]:
    return {"type": "http", "client": (address, 1), "headers": []}


@pytest.fixture
async def refused(database: Database) -> AsyncIterator[RefusedKeys]:
    opened = RefusedKeys(database)
    yield opened
    await opened.close()


async def recorded(database: Database) -> list[tuple[str, dict[str, int]]]:
    rows = await database.fetch("SELECT kind, actor, subject, counts FROM audit ORDER BY id", {})
    assert {(row["kind"], row["subject"]) for row in rows} <= {("key.refused", "the API")}
    return [(row["actor"], row["counts"]) for row in rows]


async def test_an_address_is_one_row_however_often_it_is_refused(
    refused: RefusedKeys, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_keys, "WINDOW_SECONDS", 0.2)
    for _ in range(50):
        refused.note(request_from("192.0.2.1"), reason="unknown")
    refused.note(request_from("192.0.2.2"), reason="missing")

    async def both_are_there() -> bool:
        return len(await recorded(database)) == 2

    assert await until(both_are_there)

    assert await recorded(database) == [("192.0.2.1", {"unknown": 50}), ("192.0.2.2", {"missing": 1})]


async def test_after_a_quiet_minute_the_next_refusal_has_a_row_again(
    refused: RefusedKeys, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_keys, "WINDOW_SECONDS", 0.05)
    for _ in range(2):
        refused.note(request_from("192.0.2.1"), reason="unknown")
        assert await until(lambda: refused._writing is None)

    assert await recorded(database) == [("192.0.2.1", {"unknown": 1})] * 2


async def test_the_end_of_the_process_does_not_wait_for_the_minute(database: Database) -> None:
    refused = RefusedKeys(database)
    refused.note(request_from("192.0.2.1"), reason="unknown")

    await refused.close()

    assert await recorded(database) == [("192.0.2.1", {"unknown": 1})]


async def test_what_could_not_be_recorded_counts_in_the_next_minute(
    refused: RefusedKeys, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_keys, "WINDOW_SECONDS", 0.05)
    await database.fetch("ALTER TABLE audit RENAME TO away", {})
    with capture_logs() as lines:
        refused.note(request_from("192.0.2.1"), reason="unknown")
        assert await until(lambda: "audit.not_recorded" in [line["event"] for line in lines])
    refused.note(request_from("192.0.2.1"), reason="missing")
    await database.fetch("ALTER TABLE away RENAME TO audit", {})

    assert await until(lambda: refused._writing is None)

    [(address, counts)] = await recorded(database)
    assert (address, counts) == ("192.0.2.1", {"unknown": 1, "missing": 1})
