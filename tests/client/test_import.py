"""Other people's services import the client: it is light, and reads the environment only when it is asked to."""

import json
import subprocess
import sys

import pytest

from turnstile.client import AsyncClient, Client
from turnstile.errors import SettingsError

LOADED = """
import json, sys
import turnstile.client
{more}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
HEAVY = {"psycopg", "redis", "sqlalchemy", "aiohttp", "boto3", "fastapi", "uvicorn", "alembic", "typer"}


@pytest.mark.parametrize("more", ["", "turnstile.client.Client.from_environment().close()"])
def test_it_loads_no_driver_and_no_part_of_a_server(more: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED.format(more=more)], capture_output=True, text=True, check=True, timeout=60
    )

    loaded = set(json.loads(ran.stdout))
    assert "httpx2" in loaded
    assert loaded & HEAVY == set()
    assert more or "pydantic" not in loaded


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_of_the_environment_takes_what_the_commands_take(
    kind: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_API_URL", "https://api.example:7/at")
    monkeypatch.setenv("TURNSTILE_API_KEY", "a-key-of-mine")
    # Of the application, and nothing that Turnstile could use.
    monkeypatch.setenv("DATABASE_URL", "mysql://elsewhere")

    http = kind.from_environment()._http

    assert (str(http.base_url), http.headers["authorization"]) == ("https://api.example:7/at/", "Bearer a-key-of-mine")


def test_a_setting_that_can_not_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_API_URL", "nowhere")

    with pytest.raises(SettingsError, match=r"^TURNSTILE_API_URL: must be http://HOST"):
        Client.from_environment()


def test_arguments_that_can_not_be_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="must be http://HOST"):
        Client("nowhere")
    with pytest.raises(ValueError, match="must be printable ASCII"):
        Client(api_key="line\nbreak")
    with Client() as client, pytest.raises(ValueError, match="the session must be 1 to 128 of"):
        client.session("..")


@pytest.mark.parametrize(
    ("url", "uses_proxies"),
    [("http://127.0.0.1:8080", False), ("https://localhost", False), ("https://api.example", True)],
)
def test_a_proxy_of_the_environment_is_not_asked_for_the_loopback(url: str, uses_proxies: bool) -> None:
    assert Client(url)._http.trust_env is uses_proxies
