"""Postgres is restored to an earlier moment; Redis and SQS keep their newer data. The only step is to start the services."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.database_dumps import dump, restore
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.redis_hands import OwnEventReader
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.streaming.event import TurnEvent, name_stream
from turnstile.streaming.stream import Reading

SESSIONS = [f"s{n}" for n in range(4)]
FEW_OPEN = "SELECT WHERE (SELECT count(*) FROM turns WHERE status IN ('PENDING', 'RUNNING')) < 60"


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    """Where the dump goes."""
    return tmp_path / "dump"


@asynccontextmanager
async def restored(product: Product, stack: Stack, dumped: Path) -> AsyncIterator[Product]:
    """The product on the database as it was when it was dumped."""
    await asyncio.to_thread(restore, stack, product.settings.database_url, dumped)
    async with Product.open(product.settings) as opened:
        yield opened


async def learn(product: Product, *words: str) -> None:
    """A turn for each word in each session: it reads the fact, replaces it by the word and reads it again."""
    for session in SESSIONS:
        await product.submit(*[{"do": "learn", "say": word} for word in words], session=session)


async def lessons(product: Product) -> dict[str, list[dict[str, Any]]]:
    """What was answered in each session, in order."""
    rows = await product.fetch(
        "SELECT t.session_id, m.content FROM turns t JOIN messages m ON m.turn_id = t.id AND m.role = 'assistant'"
        " ORDER BY t.session_id, t.seq"
    )
    answers = defaultdict(list)
    for row in rows:
        answers[row["session_id"]].append(row["content"])
    return answers


async def highest_fence(product: Product) -> int:
    [row] = await product.fetch("SELECT max(fence) AS fence FROM evidence")
    return int(row["fence"])


async def test_every_turn_in_a_dump_made_under_load_is_answered_after_the_restore(
    product: Product, start_worker: StartWorker, stack: Stack, dumped: Path
) -> None:
    workers = [start_worker() for _ in range(2)]
    enough = asyncio.Event()

    async def load() -> None:
        count = 0
        while not enough.is_set():
            # As many open turns as two workers answer soon, also where other work starves the machine.
            await until(lambda: product.fetch(FEW_OPEN))
            await learn(product, f"word-{count}")
            count += 1

    loading = asyncio.create_task(load())
    await until(lambda: product.fetch("SELECT FROM turns WHERE status = 'SUCCEEDED' OFFSET 20"))
    await asyncio.to_thread(dump, stack, product.settings.database_url, dumped)
    later = f"SELECT FROM turns WHERE status = 'SUCCEEDED' OFFSET {len(await product.rows()) + 20}"
    await until(lambda: product.fetch(later), within=90)
    enough.set()
    await loading
    lost = await highest_fence(product)
    # Whatever they have in hand is left as it is, and messages of turns that are gone are left in SQS.
    for worker in workers:
        worker.kill()

    async with restored(product, stack, dumped) as again:
        [began_before] = await again.fetch("SELECT coalesce(max(id), 0) AS id FROM evidence")
        workers = [start_worker() for _ in range(2)]
        await learn(again, "last")
        await again.ended(within=90)

        assert {row["status"] for row in await again.rows()} == {"SUCCEEDED"}
        await again.check_sessions()
        for answers in (await lessons(again)).values():
            known = None
            for answer in answers:
                # An attempt that was lost may have written its fact before.
                assert answer["before"] in (known, answer["after"])
                assert answer["kept"]
                known = answer["after"]
            assert known == "last"
        fences = [one["fence"] for one in await again.evidence() if one["id"] > began_before["id"]]
        assert min(fences) > lost
        for worker in workers:
            assert [line for line in worker.lines() if line.get("level") in ("error", "critical")] == []


async def test_a_turn_that_is_answered_again_after_a_restore_is_streamed_again_and_its_session_goes_on(
    product: Product, start_worker: StartWorker, stack: Stack, dumped: Path
) -> None:
    """It was answered in the lost time, too: its events and the session's history are still in Redis."""
    [turn] = await product.submit({"do": "speak", "words": ["well ", "said"]}, send=False)
    await asyncio.to_thread(dump, stack, product.settings.database_url, dumped)
    worker = start_worker()
    # Others draw fences before it.
    await product.submit(*[{"do": "echo"}] * 5, session="other")
    await product.ended()
    await product.submit({"do": "echo", "say": "never"}, {"do": "echo", "say": "was"})
    await product.ended()
    assert [event.saying.kind for event in await heard(product.settings, turn)][-1] == "end"
    worker.kill()

    async with restored(product, stack, dumped) as again:
        start_worker()
        await again.submit({"do": "history"})
        await again.ended()

        [spoken, asked] = await again.rows()
        events = await until(lambda: ended_under(again.settings, turn, spoken["fence"]))
        assert [event.id.n for event in events] == list(range(1, len(events) + 1))
        [answer] = await again.fetch(
            f"SELECT content FROM messages WHERE turn_id = '{asked['id']}' AND role = 'assistant'"
        )
        assert answer["content"][:2] == [{"do": "speak", "words": ["well ", "said"]}, "well said"]
        assert answer["content"][2:] == [{"do": "history"}]


async def heard(settings: Settings, turn: UUID) -> list[TurnEvent]:
    """The turn's stream, as it stands in Redis."""
    reader = OwnEventReader(settings)
    try:
        return await reader.read(Reading(name_stream(settings.redis_prefix, "t", "s", turn), None)) or []
    finally:
        await reader.close()


async def ended_under(settings: Settings, turn: UUID, fence: int) -> list[TurnEvent]:
    """What that claim has said, once it has said the end."""
    events = [event for event in await heard(settings, turn) if event.id.fence == fence]
    return events if events and events[-1].saying.kind.ends else []
