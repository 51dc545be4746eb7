"""Which heads `turnstile doctor` calls stuck: not those that have just been put off, handed back or reached by a skip."""

import json
from typing import Any, LiteralString
from uuid import UUID, uuid4

import pytest

from tests.ops.commands.dead_turns import make_failed, rows
from tests.ops.commands.test_doctor import Doctor, MakeIll, doctor, make_ill, make_pending
from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.claim import claim
from turnstile.statements.defer import PutOff, put_off
from turnstile.statements.halt import skip
from turnstile.statements.settle import SettleRequest, settle
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

__all__ = ["doctor", "make_ill"]

LONG_AGO: LiteralString = "created_at = now() - interval '1 h'"


async def put_off_now(database: Database, settings: Settings, make_ill: MakeIll) -> UUID:
    turn = await make_pending(database, settings)
    await make_ill(f"UPDATE turns SET {LONG_AGO}, send_at = now(), sends = 5")
    await put_off(database, [PutOff("t", "s", 7.5)])
    return turn


async def hand_back(database: Database, settings: Settings, make_ill: MakeIll) -> UUID:
    await make_pending(database, settings)
    terms = make_terms(settings)
    (turn,) = await claim(database, terms, [make_claim()])
    assert isinstance(turn, ClaimedTurn)
    await make_ill(f"UPDATE turns SET {LONG_AGO}, started_at = now() - interval '1 h'")
    released = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RELEASED, refund=True)
    request = SettleRequest(turn=turn, settlement=released, more=False, next_claim_id=uuid4())
    await settle(database, terms, [request], json.dumps)
    return turn.id


async def skip_the_one_before(database: Database, settings: Settings, make_ill: MakeIll) -> UUID:
    (failed,) = await make_failed(database, settings, ["s"], halt=True)
    turn = await make_pending(database, settings)
    await make_ill(f"UPDATE turns SET {LONG_AGO}, sends = 5 WHERE status = 'PENDING'")
    await make_ill("UPDATE turns SET finished_at = now() - interval '1 h' WHERE status = 'FAILED'")
    await skip(database, failed, requested_by="ada@test")
    return turn


@pytest.mark.parametrize("wakes", [put_off_now, hand_back, skip_the_one_before])
@pytest.mark.parametrize("sent", [False, True], ids=["owed", "sent"])
async def test_a_head_that_became_due_a_moment_ago_is_not_stuck(
    doctor: Doctor,
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    make_ill: MakeIll,
    wakes: Any,
    sent: bool,
) -> None:
    turn = await wakes(database, settings, make_ill)
    if sent:
        await make_ill("UPDATE turns SET send_at = now() WHERE status = 'PENDING'")
        await Relay(database, queues, settings).round()

    visit = await doctor()

    assert (await rows(database))[turn]["sends"] == int(sent)
    assert "session-stuck" not in visit.codes


@pytest.mark.parametrize(
    ("sends", "seconds", "stuck"),
    [
        # Handed back, and never sent for again: by the sum of the nets.
        (1, 1, False),
        (2, 90, False),
        (3, 225, True),
        (10, 3599, True),
        # Sent at a time at which no relay would: by the rest of the row.
        (0, 3600, True),
        (1, 3600, True),
    ],
)
async def test_a_head_is_stuck_when_three_nets_have_brought_nobody(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll, sends: int, seconds: int, stuck: bool
) -> None:
    await hand_back(database, settings, make_ill)
    await database.fetch(
        "UPDATE turns SET sends = %(sends)s::int, send_at = now() + make_interval(secs => %(seconds)s::int)",
        {"sends": sends, "seconds": seconds},
    )

    visit = await doctor()

    assert ("session-stuck" in visit.codes) is stuck


async def test_the_net_of_a_busy_queue_is_as_long_as_its_dwell_makes_it(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    await hand_back(database, settings, make_ill)
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, dwell_seconds) VALUES ('w', %(queue)s, 'h', 1, 1, 300)",
        {"queue": settings.queue},
    )
    await make_ill("UPDATE turns SET sends = 1, send_at = now() + interval '9 min'")
    busy = await doctor()
    await database.fetch("UPDATE workers SET dwell_seconds = 0", {})

    calm = await doctor()

    # By the nets of a calm queue no relay would have put it there: then it says nothing of when the head became due.
    assert ("session-stuck" in busy.codes, "session-stuck" in calm.codes) == (False, True)
