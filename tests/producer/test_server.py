"""The server's sockets: what connections inherit from them, and what happens while no file descriptor is left."""

import asyncio
import errno
import socket as sockets
from contextlib import closing
from socket import socket
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from structlog.testing import capture_logs

from tests.producer.api.plain_server import running
from tests.support.probes import until
from turnstile.producer.http.client_connections import Connections
from turnstile.producer.server import Server, listen


def test_a_response_in_two_writes_does_not_wait_for_the_clients_ack() -> None:
    [listening] = listen("127.0.0.1", 0)
    with closing(listening):
        listening.listen()
        with sockets.create_connection(listening.getsockname()):
            connection, _ = listening.accept()
            with connection:
                assert connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY)


@pytest.mark.parametrize(
    "request_head",
    [b"no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: x\r\n\r\n"],
    ids=["malformed", "upgrade"],
)
async def test_requests_that_uvicorn_warns_about_do_not_flood_the_log(
    request_head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    config = uvicorn.Config(PlainTextResponse("said"), http=Connections(9).protocol, log_config=None, lifespan="off")
    with capture_logs() as logs:
        async with running(Server(config, lambda: None)) as port, asyncio.timeout(60):
            for _ in range(50):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request_head)
                assert (await reader.read()).startswith(b"HTTP/1.1 ")
                writer.close()
            await until(lambda: sum(line["count"] for line in logs if line["event"] == "api.http_warning") >= 50)

    assert [line["event"] for line in logs].count("api.http_warning") < 10
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


class NoFilesLeft(socket):
    """A listening socket that accepts nothing until `files` is set."""

    files = False
    failures = 0

    def accept(self) -> Any:
        if self.files:
            return super().accept()
        self.failures += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def test_without_a_file_descriptor_connections_wait_and_the_log_has_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.01)
    listening = NoFilesLeft()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(PlainTextResponse("said"), http=Connections(9).protocol, log_config=None, lifespan="off")
    with capture_logs() as logs:
        async with running(Server(config, lambda: None), listening) as port, asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await until(lambda: listening.failures > 20)
            listening.files = True
            answer = await reader.read()
            writer.close()

    assert answer.endswith(b"said")
    assert 0 < [line["event"] for line in logs].count("api.accept_failed") < listening.failures / 4
