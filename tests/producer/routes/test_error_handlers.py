"""Errors of a route: overload, and those that nobody expects. Others: tests/producer/api/test_outages.py."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import State
from starlette.responses import JSONResponse, StreamingResponse
from structlog.testing import capture_logs

from tests.producer.api.plain_server import serving_plainly
from tests.support.probes import let_the_loop_turn
from turnstile.errors import ConnectionsBusyError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import Kind, ProblemError
from turnstile.producer.routes import error_handlers
from turnstile.producer.routes.error_handlers import LastResort, answer
from turnstile.producer.sharing.fair_places import NoPlaceError

MESSAGE = "a secret"


async def test_a_partial_response_is_broken_off_and_the_log_has_no_message() -> None:
    async def failing() -> Any:
        yield "one"
        raise ValueError(MESSAGE)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await StreamingResponse(failing())(scope, receive, send)

    with capture_logs() as logs:
        async with serving_plainly(LastResort(app)) as (_, port), asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await reader.read()
            writer.close()

    # Chunked, and without the last chunk.
    assert answer.endswith(b"3\r\none\r\n")
    [line] = [line for line in logs if line["event"] == "api.unexpected_error"]
    assert "builtins.ValueError" in line["kinds"]
    assert MESSAGE not in str(logs)


async def test_a_refusal_for_overload_is_held_back_while_connections_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 3600.0)
    state = State({"database_away": Tally("away"), "connections": SimpleNamespace(may_wait=True)})

    def begin(error: Exception) -> "asyncio.Task[JSONResponse]":
        return asyncio.create_task(answer(error, "/", state))

    held, other = begin(NoPlaceError(Kind.TOO_MANY_REQUESTS, "")), begin(ProblemError(Kind.NOT_FOUND, ""))
    await let_the_loop_turn(5)
    assert (held.done(), other.done()) == (False, True)
    state.connections.may_wait = False
    at_once = begin(NoPlaceError(Kind.TOO_MANY_REQUESTS, ""))
    await let_the_loop_turn(5)

    assert (held.done(), at_once.done()) == (False, True)
    assert at_once.result().status_code == 429
    held.cancel()
    await asyncio.wait({held})


async def test_a_process_that_has_too_much_to_do_does_not_blame_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 0.0)
    tallies = {"database_away": Tally("api.database_away"), "overloaded": Tally("api.overloaded")}
    state = State({**tallies, "connections": SimpleNamespace(may_wait=True)})

    with capture_logs() as logs:
        refused = await answer(ConnectionsBusyError("busy"), "/v1/turns/x/events", state)

    assert refused.status_code == 503
    assert b"too many calls" in bytes(refused.body)
    assert refused.headers["retry-after"] == "2"
    assert [line["event"] for line in logs] == ["api.overloaded"]
