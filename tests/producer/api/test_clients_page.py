"""The application's side of docs/clients.md works as it is printed."""

import importlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
from httpx import AsyncClient
from standardwebhooks import WebhookVerificationError

from tests.conftest import ROOT
from tests.producer.api.calls import KEYS
from turnstile.webhooks.signature import derive_secret, signed_headers

ROOT_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
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


def test_a_receiver_takes_what_the_tenants_secret_signed_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = [one for one in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "Webhook" in one]
    page: dict[str, Any] = {}
    exec(code, page)  # noqa: S102
    monkeypatch.setenv("WEBHOOK_SECRET", derive_secret(ROOT_SECRET, "acme", 1))
    body = b'{"data": {"status": "SUCCEEDED"}}'
    sent = {
        tenant: signed_headers([derive_secret(ROOT_SECRET, tenant, 1)], "turn_1", int(time.time()), body)
        for tenant in ("acme", "globex")
    }
    seen: set[str] = set()

    assert page["receive"](sent["acme"], body, seen) == {"status": "SUCCEEDED"}
    assert page["receive"](sent["acme"], body, seen) is None
    for headers, forged in ((sent["globex"], body), (sent["acme"], body.replace(b"SUCCEEDED", b"FAILED"))):
        with pytest.raises(WebhookVerificationError):
            page["receive"](headers, forged, set())
