"""The health check of the image: whom it asks, and what it makes of the answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ops import container_health
from ops.container_health import choose_port, is_live, main
from ops.local.ports import choose_free

PORTS = {"api": "8080", "worker": "8081"}


@pytest.mark.parametrize(
    ("command_line", "port"),
    [
        (["/opt/turnstile/bin/python", "/opt/turnstile/bin/turnstile", "api"], 8080),
        (["python", "/opt/turnstile/bin/turnstile", "worker", "--handler", "api:respond"], 8081),
        # Behind `docker run --init`.
        (["/sbin/docker-init", "--", "turnstile", "worker"], 8081),
        (["python", "turnstile", "relay"], None),
        (["python", "turnstile", "migrate"], None),
    ],
)
def test_the_command_says_where_to_ask(command_line: list[str], port: int | None) -> None:
    assert choose_port(command_line, PORTS) == port


def test_a_worker_without_a_health_port_is_not_asked() -> None:
    assert choose_port(["turnstile", "worker"], {"api": "8080", "worker": ""}) is None


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A process that answers /healthz; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the base class's
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "live"), [(200, True), (503, False)])
def test_the_process_says_whether_it_is_live(status: int, live: bool) -> None:
    with answering(status) as port:
        assert is_live(port) is live


def test_one_that_does_not_listen_is_not_live() -> None:
    assert not is_live(choose_free())


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_exit_code_is_the_one_that_engines_understand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    first_process = tmp_path / "cmdline"
    first_process.write_text("python\0turnstile\0worker\0")
    monkeypatch.setattr(container_health, "FIRST_PROCESS", first_process)

    with answering(status) as port:
        assert main(["api=1", f"worker={port}"]) == code


def test_the_relay_is_well_as_long_as_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_process = tmp_path / "cmdline"
    first_process.write_text("python\0turnstile\0relay\0")
    monkeypatch.setattr(container_health, "FIRST_PROCESS", first_process)

    assert main(["api=1", "worker=1"]) == 0
