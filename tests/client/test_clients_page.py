"""The application's side of docs/clients.md works as it is printed: each block of its code runs."""

import asyncio
import re
import time
from typing import Any
from uuid import UUID

import pytest

from tests.conftest import ROOT
from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation
from tests.support.probes import until
from turnstile.client import AsyncClient, WebhookRefusedError
from turnstile.turn.identifiers import DEFAULT_TENANT, may_choose
from turnstile.webhooks.signature import derive_secret, signed_headers

ROOT_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/clients.md").read_text(), re.MULTILINE | re.DOTALL)


def run_block(word: str, **replaced: str) -> dict[str, Any]:
    """The names that the one block with the word defines."""
    [code] = [code for code in BLOCKS if word in code]
    for old, new in replaced.items():
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102
    return names


async def reply_to_the_turn(talk: Conversation, *said: str) -> None:
    """A worker takes the turn that waits."""
    async with AsyncClient(f"http://127.0.0.1:{talk.served.port}", api_key=KEYS["acme"]) as client:

        async def find() -> list[Any]:
            return [turn async for turn in client.turns(status="PENDING")]

        await until(find)
        [turn] = await find()
    talk.script.emit(*said)
    talk.script.reply("".join(said))
    await talk.work(UUID(turn["id"]), "chat-1")


async def test_an_application_prints_the_reply_as_it_grows_and_a_repeat_is_the_same_turn(
    talk: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    url = {"http://127.0.0.1:8080": f"http://127.0.0.1:{talk.served.port}", "a-key-of-yours": KEYS["acme"]}
    main = run_block("async def answer", **url)["main"]

    await asyncio.gather(main(), reply_to_the_turn(talk, "Good ", "day"))
    await main()

    assert capsys.readouterr().out.endswith("Good day")
    assert len((await talk.client.get("/v1/turns")).json()["turns"]) == 1


async def test_a_script_waits_for_a_turn_and_reads_the_replies(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_API_URL", f"http://127.0.0.1:{talk.served.port}")
    monkeypatch.setenv("TURNSTILE_API_KEY", KEYS["acme"])
    report = run_block("def report")["report"]

    replies, _ = await asyncio.gather(asyncio.to_thread(report, "chat-1"), reply_to_the_turn(talk, "In short"))

    assert replies == ["In short"]


def test_a_receiver_takes_what_the_tenants_secret_signed_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = run_block("verify_webhook")["receive"]
    monkeypatch.setenv("WEBHOOK_SECRET", derive_secret(ROOT_SECRET, "acme", 1))
    body = b'{"data": {"status": "SUCCEEDED"}}'
    sent = {
        tenant: signed_headers([derive_secret(ROOT_SECRET, tenant, 1)], "turn_1", int(time.time()), body)
        for tenant in ("acme", "globex")
    }
    seen: set[str] = set()

    assert receive(sent["acme"], body, seen) == {"status": "SUCCEEDED"}
    assert receive(sent["acme"], body, seen) is None
    for headers, forged in ((sent["globex"], body), (sent["acme"], body.replace(b"SUCCEEDED", b"FAILED"))):
        with pytest.raises(WebhookRefusedError):
            receive(headers, forged, set())


def test_an_id_that_is_chosen_so_may_be_chosen_and_is_the_same_for_each_repeat() -> None:
    first, second = [run_block("uuid5")["turn_id"] for _ in range(2)]

    assert first == second
    assert may_choose(DEFAULT_TENANT, first)


def test_no_block_of_the_page_is_left_out() -> None:
    here = ("async def answer", "def report", "verify_webhook", "uuid5")
    # The last is that of tests/submission.
    run = (*here, "from turnstile import submit")

    assert [block for block in BLOCKS if not any(word in block for word in run)] == []
