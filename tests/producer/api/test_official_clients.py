"""The official clients talk to the API, with what docs/wires.md says and with nothing else of ours."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation
from tests.support.probes import until
from turnstile.handlers.exceptions import Retry

CLIENTS = Path(__file__).parents[2] / "official_clients"

pytestmark = pytest.mark.skipif(
    which("node") is None or not (CLIENTS / "node_modules").is_dir(), reason="no node, or no `make official-clients`"
)


async def chat(talk: Conversation, wire: str, play: Callable[[], None]) -> Any:
    """What a client has in the end whose turn is played so."""
    url = f"http://127.0.0.1:{talk.served.port}"
    asking = await asyncio.create_subprocess_exec(
        "node", "chat.mjs", wire, url, KEYS["acme"], "s", cwd=CLIENTS, stdout=asyncio.subprocess.PIPE
    )

    async def turn() -> Any:
        return (await talk.client.get("/v1/turns")).json()["turns"]

    (submitted,) = await until(turn)
    play()

    async def is_answered() -> bool:
        talk.work(submitted["id"])
        return (await talk.client.get(f"/v1/turns/{submitted['id']}?wait=1")).json()["status"] == "SUCCEEDED"

    await until(is_answered)
    said, _ = await asking.communicate()
    found = json.loads(said)
    assert found.pop("id") == submitted["id"]
    return found


@pytest.mark.parametrize(("wire", "more"), [("ai-sdk", {"resumed": False}), ("ag-ui", {"result": "Hello!"})])
async def test_a_client_has_the_reply_after_an_attempt_that_was_given_up(
    talk: Conversation, wire: str, more: dict[str, Any]
) -> None:
    def play() -> None:
        talk.script.emit("Wrong")
        talk.script.fail(Retry(after=0))
        talk.script.emit("Hel", "lo!")
        talk.script.reply("Hello!")

    assert await chat(talk, wire, play) == {"text": "Hello!", **more}
