"""The events of a turn whose worker is killed: each attempt is marked, and the end comes once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.producer.api.calls import KEYS
from tests.producer.api.sse_client import Served, Transcript, read_events, serving
from tests.support.probes import until


@pytest.fixture
async def served(product: Product) -> AsyncIterator[Served]:
    """The API, whose tenant is the one that the rig submits for."""
    keyed = product.settings.model_copy(update={"api_keys": (("t", KEYS["acme"]),)})
    async with serving(keyed) as opened:
        yield opened


async def test_after_a_kill_the_next_attempt_is_marked_and_its_text_is_the_reply(
    product: Product, start_worker: StartWorker, served: Served
) -> None:
    first = start_worker()
    [turn] = await product.submit({"do": "speak", "words": ["one ", "two ", "three"], "hang_in_attempt": 1})
    heard = Transcript()
    async with served.client() as client:
        following = asyncio.create_task(read_events(client, turn, heard))
        await until(lambda: heard.text == "one two ")
        start_worker()
        first.kill()
        await following
    statuses = [event.data for event in heard.events if event.kind == "status"]
    assert statuses == [{"status": "RUNNING", "attempt": 1}, {"status": "RUNNING", "attempt": 2}]
    assert heard.end is not None
    assert (heard.text, heard.end.data["output"]) == ("one two three", "one two three")
    places = [event.place for event in heard.events if event.id]
    assert places == sorted(set(places))
    for fence in {fence for fence, _ in places}:
        numbers = [n for own, n in places if own == fence]
        assert numbers == list(range(1, len(numbers) + 1))
