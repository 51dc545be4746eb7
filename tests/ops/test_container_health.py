"""The health check of the image: whom it asks, and what it makes of the answer."""

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
from turnstile.ops import container_health
from turnstile.ops.container_health import choose_port, is_live, main
from turnstile.ops.dev.stack.ports import choose_free

SERVICE = ROOT / "infra/modules/service/main.tf"
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


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_a_port_without_a_command_is_asked_whatever_the_first_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    first_process = tmp_path / "cmdline"
    first_process.write_text("/dev/init\0")
    monkeypatch.setattr(container_health, "FIRST_PROCESS", first_process)

    with answering(status) as port:
        assert main([str(port)]) == code


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One that has the product installed and nothing else."""
    home = tmp_path_factory.mktemp("python")
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "turnstile.pth").write_text(f"{ROOT}\n")
    return str(home / "bin" / "python")


def ask_as_ecs(python: str, port: int, folder: Path, **environment: str) -> int:
    """The exit code of what the task definition tells ECS to run."""
    told = re.search(r"health_check = .*?command\s*=\s*\[(.*?)\n?\s*\]\n", SERVICE.read_text(), re.DOTALL)
    assert told
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|tostring\(var\.port\)', told[1])]
    assert words[:2] == ["CMD", "python"]
    rest = [re.sub(r"\$\{var\.port\}|tostring\(var\.port\)", str(port), word) for word in words[2:]]
    return subprocess.run(
        [python, *rest], cwd=folder, env={**os.environ, **environment}, check=False, timeout=180
    ).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_ecs_learns_how_it_is(python: str, tmp_path: Path, status: int, code: int) -> None:
    with answering(status) as port:
        assert ask_as_ecs(python, port, tmp_path) == code


def test_a_proxy_of_the_environment_is_not_asked(python: str, tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{choose_free()}"

    with answering(200) as port:
        assert ask_as_ecs(python, port, tmp_path, HTTP_PROXY=nobody, http_proxy=nobody, NO_PROXY="", no_proxy="") == 0


def test_a_module_of_the_handlers_folder_does_not_stand_in_for_one_of_pythons(python: str, tmp_path: Path) -> None:
    (tmp_path / "http.py").write_text("raise SystemExit('the wrong http')\n")

    with answering(200) as port:
        assert ask_as_ecs(python, port, tmp_path) == 0


def test_the_relay_is_well_as_long_as_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_process = tmp_path / "cmdline"
    first_process.write_text("python\0turnstile\0relay\0")
    monkeypatch.setattr(container_health, "FIRST_PROCESS", first_process)

    assert main(["api=1", "worker=1"]) == 0
