"""A credential that calls leaves a line a minute for each route."""

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.probes import until
from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.producer.credentials import use_log
from turnstile.producer.credentials.use_log import UseLog

KEY = Caller("acme", Role.READ, "tsk_0123456789abcdef")
OTHER = Caller("acme", Role.READ, "tsk_fedcba9876543210")


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as caught:
        yield caught


def used(lines: list[Any]) -> list[tuple[Any, ...]]:
    return [(line["key_id"], line["method"], line["route"], line["count"]) for line in lines if "key_id" in line]


async def test_each_credential_and_route_has_a_line_with_its_count(lines: list[Any]) -> None:
    log = UseLog()
    for caller, route in ((KEY, "/v1/turns"), (KEY, "/v1/turns"), (OTHER, "/v1/turns"), (KEY, "/v1/turns/{turn_id}")):
        log.note(caller, "GET", route)
    assert lines == []

    log.close()
    log.close()

    assert used(lines) == [
        (KEY.key_id, "GET", "/v1/turns", 2),
        (OTHER.key_id, "GET", "/v1/turns", 1),
        (KEY.key_id, "GET", "/v1/turns/{turn_id}", 1),
    ]
    assert {line["tenant_id"] for line in lines} == {"acme"}


async def test_the_lines_come_by_themselves_and_again(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_log, "EVERY_SECONDS", 0.01)
    log = UseLog()

    for number in (1, 2):
        log.note(KEY, "GET", "/v1/turns")
        await until(lambda number=number: len(lines) == number)  # type: ignore[misc]


async def test_many_credentials_make_few_lines(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_log, "MOST_LINES", 2)
    log = UseLog()
    for number in (1, 2, 3, 1, 4):
        log.note(Caller("acme", Role.READ, f"jwt:{number}"), "GET", "/v1/turns")

    log.close()

    assert used(lines) == [("jwt:1", "GET", "/v1/turns", 2), ("jwt:2", "GET", "/v1/turns", 1)]
    assert [line["count"] for line in lines if "others" in line] == [2]
