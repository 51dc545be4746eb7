"""Conversations with the bundled handler, line by line, while everything else runs: each must equal its golden transcript."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.proof.chaos.clients import Client
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.memory_evidence import Conversation

GOLDEN = Path(__file__).parents[2] / "golden" / "eliza"
ENDED_OTHERWISE = frozenset({"FAILED", "CANCELED"})


def read_transcript(path: Path) -> Conversation:
    """A golden one, of no session yet: `> ` and a remark, then its reply, a line each."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    remarks = [line.removeprefix("> ") for line in lines[::2]]
    return Conversation(tenant="", session="", name=path.stem, remarks=remarks, replies=lines[1::2])


async def converse(client: Client, transcripts: Sequence[Conversation]) -> None:
    """One conversation after the other until the client stops. The next line is said when the last one has been answered."""
    rng = random.Random(f"{client.options.seed}/{client.name}/conversing")
    while not client.stopping.is_set():
        transcript = rng.choice(transcripts)
        session = f"{client.name}-talks-{rng.getrandbits(40):010x}"
        client.journal.write(replace(transcript, tenant=client.tenant, session=session))
        for number, remark in enumerate(transcript.remarks):
            # A turn that did not succeed is left out of the history: what follows would be another conversation.
            if not await _say(client, session, number, remark):
                break


async def _say(client: Client, session: str, number: int, remark: str) -> bool:
    """Whether the remark was answered. Asked again and again under one key, so that it is said once."""
    content = {"do": "converse", "text": remark}
    turn_id = None
    while turn_id is None:
        turn_id = await client.submit_under(f"{session}-{number}", session, content)
        if turn_id is None and await pause(0.2, client.stopping):
            return False
    while not await pause(0.15, client.stopping):
        status = await client.read(turn_id, session)
        if status == "SUCCEEDED" or status in ENDED_OTHERWISE:
            return status == "SUCCEEDED"
    return False


def start_conversations(clients: Sequence[Client]) -> list["asyncio.Task[None]"]:
    transcripts = [read_transcript(path) for path in sorted(GOLDEN.glob("*.txt"))]
    return [asyncio.create_task(converse(client, transcripts)) for client in clients]
