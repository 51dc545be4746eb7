"""An unexpected error of a route, once the response has begun. Before: tests/producer/api/test_outages.py."""

import asyncio
from typing import Any

from starlette.responses import StreamingResponse
from structlog.testing import capture_logs

from tests.producer.api.plain_server import serving_plainly
from turnstile.producer.routes.error_handlers import LastResort

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
