"""`turnstile new`: a project whose test passes at once, which `turnstile dev` runs, and whose page gets a streamed answer."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import ROOT
from tests.dev.running_dev import SECONDS, RunningDev
from tests.ops.invoke import invoke_plain
from tests.support.probes import wait_until
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.stack import LocalStack


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = invoke_plain("new", "support-bot")
    assert made.code == 0, made.err
    return tmp_path / "support-bot"


def test_the_project_is_whole_and_has_its_own_name(project: Path) -> None:
    names = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}

    assert {"agent.py", "tests/test_agent.py", "turnstile.toml", "compose.yaml", "README.md", "page.html"} <= names
    assert ".gitignore" in names
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "support-bot"
    assert not [name for name in names if "my-agent" in (project / name).read_text()]


def test_its_test_passes_at_once_without_a_service(project: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=project, env=plain, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_a_folder_with_files_is_refused_in_one_line(project: Path) -> None:
    before = (project / "agent.py").read_text()

    refused = invoke_plain("new", "support-bot")

    assert refused.code == 2
    assert refused.err == "turnstile: support-bot exists and is not an empty folder: choose another name\n"
    assert (project / "agent.py").read_text() == before


@pytest.mark.parametrize("name", ["my agent", "-agent", "agent."])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    refused = invoke_plain("new", "--", name)

    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_its_containers_are_those_of_turnstile(project: Path) -> None:
    own = yaml.safe_load((project / "compose.yaml").read_text())["services"]
    ours = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

    for name in ("postgres", "redis"):
        assert {key: own[name][key] for key in ("image", "environment", "healthcheck")} == {
            key: ours[name][key] for key in ("image", "environment", "healthcheck")
        }
    for name in ("queues", "migrate", "grant", "api", "worker", "operator"):
        left_out = {"TURNSTILE_METRICS_PORT", "TURNSTILE_API_DOCS", "TURNSTILE_API_CORS_ORIGINS"}
        assert {key: value for key, value in own[name]["environment"].items() if key not in left_out} == {
            key: value for key, value in ours[name]["environment"].items() if key not in left_out
        }
        assert own[name].get("depends_on") == ours[name].get("depends_on")
    assert own["grant"]["command"] == ours["grant"]["command"]
    _, *statements = (project / "roles.sql").read_text().splitlines()
    assert statements == (ROOT / "infra/compose/roles.sql").read_text().splitlines()[1:]


@pytest.mark.parametrize("cookie", ["", "session=no%20session"], ids=["none", "of no session"])
def test_its_server_refuses_a_request_without_its_cookie(project: Path, cookie: str) -> None:
    with serving_page(project, f"http://127.0.0.1:{choose_free()}", "a-key-of-nobody") as browser:
        refused = httpx.post(browser.base_url.join("/token"), headers={"Cookie": cookie})

    assert refused.status_code == 400
    assert "open the page" in refused.json()["title"]


@pytest.fixture
def dev(project: Path, stack: LocalStack) -> Iterator[RunningDev]:
    running = RunningDev(stack, project)
    yield running
    running.close()


@pytest.mark.long
@pytest.mark.not_on("containers", "it is about the embedded stack")
def test_its_page_gets_a_streamed_answer(dev: RunningDev, project: Path) -> None:
    wait_until(dev.is_ready, within=SECONDS)
    with serving_page(project, dev.url, dev.key) as browser:
        origin = str(browser.base_url).rstrip("/")
        access = browser.post("/token").json()
        from_page = {"Authorization": f"Bearer {access['token']}", "Origin": origin}
        with httpx.Client(base_url=access["api"], headers=from_page, timeout=SECONDS) as api:
            asked = api.post(f"/v1/sessions/{access['session_id']}/turns", json={"input": "Good morning"})
            with api.stream("GET", f"/v1/turns/{asked.json()['id']}/events") as events:
                lines = list(events.iter_lines())

    assert asked.headers["Access-Control-Allow-Origin"] == origin
    assert lines.count("event: delta") > 3
    assert lines.count("event: end") == 1
    assert "You said: Good morning" in dev.client.get(f"/v1/turns/{asked.json()['id']}").json()["output"]


@contextmanager
def serving_page(project: Path, api: str, key: str) -> Iterator[httpx.Client]:
    """A browser that has opened the page of the project's own server."""
    port = choose_free()
    environment = {**os.environ, "TURNSTILE_API_URL": api, "TURNSTILE_API_KEY": key, "PORT": str(port)}
    page = subprocess.Popen([sys.executable, "web.py"], cwd=project, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as browser:
            wait_until(lambda: page.poll() is None and answers(browser), within=SECONDS)
            yield browser
    finally:
        page.terminate()
        page.wait()


def answers(browser: httpx.Client) -> bool:
    try:
        return browser.get("/").is_success
    except httpx.ConnectError:
        return False
