"""Conversations with the bundled handler, line by line, beside everything else: each must equal its golden transcript."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proof.chaos.clients import Client
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.memory_evidence import Conversation

GOLDEN = Path(__file__).parents[2] / "golden" / "eliza"
ENDED_OTHERWISE = frozenset({"FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True)
class Transcript:
    name: str
    remarks: tuple[str, ...]
    replies: tuple[str, ...]


def read_transcripts(folder: Path = GOLDEN) -> list[Transcript]:
    """The golden ones: `> ` and a remark, then its reply, a line each."""
    return [_read(path) for path in sorted(folder.glob("*.txt"))]


def _read(path: Path) -> Transcript:
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    return Transcript(path.stem, tuple(line.removeprefix("> ") for line in lines[::2]), tuple(lines[1::2]))


async def converse(client: Client, transcripts: Sequence[Transcript]) -> None:
    """One conversation after the other until the client stops. The next line is said when the last one has been answered."""
    rng = random.Random(f"{client.options.seed}/{client.name}/conversing")
    while not client.stopping.is_set():
        transcript = rng.choice(transcripts)
        session = f"{client.name}-talks-{rng.getrandbits(40):010x}"
        client.journal.write(
            Conversation(
                tenant=client.tenant,
                session=session,
                name=transcript.name,
                remarks=transcript.remarks,
                replies=transcript.replies,
            )
        )
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
    transcripts = read_transcripts()
    return [asyncio.create_task(converse(client, transcripts)) for client in clients]
