"""All phases and checks of schemathesis, as two tenants, on a server with its Postgres, Redis and SQS."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import KEYS
from tests.producer.api.sse_client import serving
from turnstile.config.settings import Settings

SEED = "1"
EXAMPLES = "40"
"""Generated requests for each operation and phase."""

CHECKS = """
[auth.wfc]
path = "{identities}"
# What one of them may read, the other must not.
peers = ["acme", "globex"]

[checks]
enabled = true
# A turn that is valid by the document may still name a queue that is not declared, or a host that no webhook may go to.
positive_data_acceptance.enabled = false
# An erasure is accepted (202), and a relay does it. None runs here.
use_after_free.enabled = false

[[operations]]
include-path = "/v1/turns/batch"
# A batch is answered 200, with a refusal for each turn in it that is not valid.
checks.negative_data_rejection.enabled = false
# A GET of it is one of a turn that has `batch` for an id.
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false
"""
"""All checks but these."""


@pytest.mark.long
async def test_the_server_keeps_to_its_description(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Or a reader that waits for the session's next turn would read for ten minutes.
    monkeypatch.setattr("turnstile.producer.watch.session_watch.WAITS_SECONDS", 0.0)
    identities = tmp_path / "identities.json"
    identities.write_text(json.dumps({"auth": [identity(tenant) for tenant in KEYS]}))
    (tmp_path / "schemathesis.toml").write_text(CHECKS.format(identities=identities))
    short_waits = settings.model_copy(update={"max_wait_seconds": 0.2})
    async with serving(short_waits) as served, served.client() as acme, served.client("globex") as globex:
        ending = asyncio.create_task(cancel_everything([acme, globex]))
        try:
            tested = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{served.port}/openapi.json"),
                *("--seed", SEED, "--max-examples", EXAMPLES, "--generation-database", "none", "--no-color"),
                *("--continue-on-failure", "--suppress-health-check", "all", "--request-timeout", "30"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=tmp_path,
            )
            report, _ = await tested.communicate()
        finally:
            ending.cancel()
    assert tested.returncode == 0, report.decode()


def identity(tenant: str) -> dict[str, object]:
    return {"name": tenant, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {KEYS[tenant]}"}]}


async def cancel_everything(clients: list[AsyncClient]) -> None:
    """Again and again: the stream of a turn that nobody answers would not end."""
    while True:
        for client in clients:
            answer = await client.get("/v1/turns", params={"status": "PENDING", "limit": 100})
            for turn in answer.json().get("turns", []):
                await client.post(f"/v1/turns/{turn['id']}/cancel")
        await asyncio.sleep(0.2)
