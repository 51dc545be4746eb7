"""A wait for a turn's end that is cancelled gives its place back."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn
from turnstile.producer.sharing.fair_places import FairPlaces
from turnstile.producer.watch.wait_for_end import wait_for_end


class Watch:
    """Finds each turn, and its end a few turns of the loop later."""

    async def find(self, _: str, turn_id: UUID) -> UUID:
        await let_the_loop_turn(3)
        return turn_id

    async def until_ended(self, turn: UUID, _: float) -> UUID:
        await let_the_loop_turn(3)
        return turn


async def stay_connected() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", Cancel)
async def test_a_wait_that_is_cancelled_at_any_await_gives_its_place_back(how: Cancel) -> None:
    async def wait() -> UUID | None:
        request: Any = SimpleNamespace(receive=stay_connected, scope={})
        return cast("UUID | None", await wait_for_end(watch, places, request, "t", UUID(int=1), 60.0))

    watch: Any = Watch()
    places = FairPlaces(1, "waits", shared=False)

    async for _ in cancel_at_each_await(wait, how):
        assert await wait() == UUID(int=1)
