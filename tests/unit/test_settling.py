"""Settles share a round trip; sessions that go on are told so in portions, or they would go on in one crowd for ever."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

import worker.settling
from tests.probes import turn_loop
from tests.unit.test_attempt import CLAIMED
from turns.batching import AT_ONCE
from turns.claim import Claim, NoClaim
from turns.settings import QueueSettings, Settings
from turns.settle import Settled, SettleRequest
from turns.settlement import AttemptOutcome, Settlement
from turns.status import TurnStatus
from worker.handler import Handler
from worker.settling import Settling

SUCCEEDED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="bye")
MANY = 3 * AT_ONCE


@pytest.mark.parametrize(("following", "told_together"), [(CLAIMED, AT_ONCE), (NoClaim.IDLE, MANY)])
async def test_of_sessions_that_go_on_a_few_are_told_in_one_step_and_of_all_others_all(
    following: Claim, told_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def settle(_: Any, __: Any, requests: Sequence[SettleRequest], ___: Any) -> list[Settled]:
        return [Settled(TurnStatus.SUCCEEDED, following) for _ in requests]

    async def once(call: Any) -> Any:
        return await call()

    monkeypatch.setattr(worker.settling, "settle", settle)
    nothing = cast("Any", None)
    settings = Settings(queues=(QueueSettings(name="turns"),))
    settling = Settling(settings, Handler(lambda *_: None), nothing, nothing, once)
    calls = [asyncio.create_task(settling.settle(CLAIMED, SUCCEEDED, more=True)) for _ in range(MANY)]
    told: list[int] = []
    while sum(told) < MANY:
        await turn_loop(1)
        if now := sum(call.done() for call in calls) - sum(told):
            told.append(now)

    assert told[0] == told_together
