"""The application's side of docs/clients.md works as it is printed."""

import importlib
import re
from pathlib import Path

import pytest
from httpx import AsyncClient

from tests.conftest import ROOT
from tests.producer.api.calls import KEYS

PAGE = (ROOT / "docs/clients.md").read_text()


async def test_an_application_submits_once_and_follows_to_the_end(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [code] = [code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "httpx" in code]
    monkeypatch.setenv("TURNSTILE_API_KEY", KEYS["acme"])
    (tmp_path / "application_of_the_page.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    application = importlib.import_module("application_of_the_page")
    assert application.turnstile.headers["Authorization"] == client.headers["Authorization"]
    await application.turnstile.aclose()
    monkeypatch.setattr(application, "turnstile", client)

    turn_id = await application.submit("s", 7, "hello")
    repeated = await application.submit("s", 7, "hello")
    await client.post(f"/v1/turns/{turn_id}/cancel")
    events = [event async for event in application.follow(turn_id)]

    assert repeated == turn_id
    assert events[0][0] == "metadata"
    assert events[-1] == ("end", {"turn_id": turn_id, "status": "CANCELED", "reason": "user"})
