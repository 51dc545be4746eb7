"""The back end of the example pages."""

from pathlib import Path

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from tests.producer.api.calls import KEYS
from tests.producer.api.sse_client import serving
from turnstile.config.settings import Settings
from turnstile.examples.page_backend import make_backend


def browser(backend: FastAPI) -> AsyncClient:
    """A browser of its own, with cookies of its own."""
    return AsyncClient(transport=ASGITransport(backend), base_url="http://127.0.0.1:8000")


async def test_each_browser_gets_tokens_for_a_session_of_its_own(settings: Settings, tmp_path: Path) -> None:
    keyed = settings.model_copy(update={"api_keys": (("acme", KEYS["acme"]),)})
    async with serving(keyed) as served:
        backend = make_backend(str(tmp_path), f"http://127.0.0.1:{served.port}", KEYS["acme"])
        async with browser(backend) as one, browser(backend) as other:
            first, again, strange = [(await each.post("/token")).json() for each in (one, one, other)]

        async with served.client() as client:
            headers = {"Authorization": f"Bearer {first['token']}"}
            body = {"input": "hi"}
            path = f"/v1/sessions/{first['session_id']}/turns"
            assert (await client.post(path, json=body, headers=headers)).status_code == 202
            assert (
                await client.get(path.replace(first["session_id"], strange["session_id"]), headers=headers)
            ).status_code == 404

    assert first["session_id"] == again["session_id"] != strange["session_id"]
    assert first["token"] != again["token"]


async def test_the_page_is_served(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>chat</p>")

    async with browser(make_backend(str(tmp_path), "http://127.0.0.1:1", "a-key-of-tests")) as one:
        answer = await one.get("/")

    assert (answer.status_code, answer.text) == (200, "<p>chat</p>")
