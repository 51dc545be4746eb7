"""A call of SQS that is cancelled, at whichever await, gives back its place among the commands and its connection."""

import asyncio
from collections.abc import Sequence

import pytest

import turnstile.backends.sqs.sqs_client
from tests.backends.sqs.asking_sqs import COMMAND, asking, give_environment
from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import until
from tests.support.scripted_sqs import Act, answer
from turnstile.backends.sqs.sqs_client import POLL

OVERLOADED = answer(status="503 Slow Down")
"""The client tries again, on a connection that it opens for this call alone."""


@pytest.mark.parametrize("how", Cancel)
@pytest.mark.parametrize(
    ("operation", "acts"),
    [(COMMAND, []), (COMMAND, [OVERLOADED]), (POLL, [])],
    ids=["one try", "two tries", "poll"],
)
async def test_a_call_that_is_cancelled_at_any_await_gives_back_its_place_and_its_connection(
    monkeypatch: pytest.MonkeyPatch, operation: str, acts: Sequence[Act], how: Cancel
) -> None:
    give_environment(monkeypatch)
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "COMMANDS", 1)
    async with asking() as (client, sqs):

        async def call() -> None:
            sqs.acts[:] = acts
            await client.call(operation, {})

        async def rival() -> None:
            await client.call(operation, {})

        # A place that is lost stops the next call for ever.
        async with asyncio.timeout(60):
            async for _ in cancel_at_each_await(call, how, rival):
                # Two at the same time: the second waits for the place of the first.
                await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(2)))

        # The client keeps as many as were wanted at the same time: commands have one place, polls have no limit.
        wanted = 2 if operation == POLL else 1
        await until(lambda: sum(not writer.is_closing() for writer in sqs.writers) <= wanted)
