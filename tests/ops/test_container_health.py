"""The health check of the image: which port it checks, and its exit code."""

import os
import re
import subprocess
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT
from turnstile.dev.stack.ports import choose_free
from turnstile.ops import container_health
from turnstile.ops.container_health import choose_port, is_live, main

SERVICE = ROOT / "infra/modules/service/main.tf"
PORTS = {"api": "8080", "worker": "8081"}


@pytest.mark.parametrize(
    ("command_line", "port"),
    [
        (["python", "/opt/turnstile/bin/turnstile", "worker", "--handler", "api:respond"], 8081),
        # Behind `docker run --init`.
        (["/sbin/docker-init", "--", "turnstile", "api"], 8080),
        (["python", "turnstile", "relay"], None),
    ],
)
def test_the_first_process_says_which_port_to_check(command_line: list[str], port: int | None) -> None:
    assert choose_port(command_line, PORTS) == port


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
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("command", "arguments", "status", "code"),
    [("worker", ["api=1", "worker={port}"], 200, 0), ("worker", ["{port}"], 503, 1), ("relay", ["api=1"], 503, 0)],
    ids=["named", "port alone", "relay"],
)
def test_the_exit_code_is_that_of_the_process_that_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str], status: int, code: int
) -> None:
    first_process = tmp_path / "cmdline"
    first_process.write_text(f"python\0turnstile\0{command}\0")
    monkeypatch.setattr(container_health, "FIRST_PROCESS", first_process)

    with answering(status) as port:
        assert main([argument.format(port=port) for argument in arguments]) == code


def test_a_port_on_which_nothing_listens_is_not_live() -> None:
    assert not is_live(choose_free())


def test_the_command_of_the_task_definition_uses_no_proxy_and_no_module_of_the_handlers_folder(tmp_path: Path) -> None:
    """In a Python that has only the product installed."""
    venv.create(tmp_path / "python", symlinks=True)
    [packages] = (tmp_path / "python").glob("lib/python*/site-packages")
    (packages / "turnstile.pth").write_text(f"{ROOT}\n")
    (tmp_path / "http.py").write_text("raise SystemExit('the wrong http')\n")
    nothing = f"http://127.0.0.1:{choose_free()}"
    proxies = {"HTTP_PROXY": nothing, "http_proxy": nothing, "NO_PROXY": "", "no_proxy": ""}
    declared = re.search(r"health_check = .*?command\s*=\s*\[(.*?)\n?\s*\]\n", SERVICE.read_text(), re.DOTALL)
    assert declared
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|tostring\(var\.port\)', declared[1])]
    assert words[:2] == ["CMD", "python"]

    with answering(200) as port:
        rest = [re.sub(r"\$\{var\.port\}|tostring\(var\.port\)", str(port), word) for word in words[2:]]
        ran = subprocess.run(
            [tmp_path / "python/bin/python", *rest],
            cwd=tmp_path,
            env={**os.environ, **proxies},
            timeout=180,
            check=False,
        )

    assert ran.returncode == 0
