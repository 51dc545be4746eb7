"""Settles share a round trip; of sessions that go on a few, or they would go on in one crowd for ever."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

import turnstile.worker.settling
from tests.worker.attempt.test_attempt import CLAIMED
from turnstile.backends.batcher import MOST_BEGIN
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import Claim, NoClaim
from turnstile.statements.settle import Settled, SettleRequest
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.settling import Settling

SUCCEEDED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="bye")
MANY = 5 * MOST_BEGIN


@pytest.mark.parametrize(("following", "most_together"), [(CLAIMED, MOST_BEGIN), (NoClaim.IDLE, MANY)])
async def test_of_sessions_that_go_on_a_few_share_a_settle_and_of_all_others_many(
    following: Claim, most_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    async def settle(_: Any, __: Any, requests: Sequence[SettleRequest], ___: Any) -> list[Settled]:
        batches.append(len(requests))
        return [Settled(TurnStatus.SUCCEEDED, following) for _ in requests]

    async def once(call: Any) -> Any:
        return await call()

    monkeypatch.setattr(turnstile.worker.settling, "settle", settle)
    nothing = cast("Any", None)
    settings = Settings(queues=(QueueSettings(name="turns"),))
    settling = Settling(settings, Handler(lambda *_: None), nothing, nothing, once)
    for _ in range(20):
        await settling.settle(CLAIMED, SUCCEEDED, more=True)
    await asyncio.gather(*(settling.settle(CLAIMED, SUCCEEDED, more=True) for _ in range(MANY)))

    assert max(batches) == most_together
