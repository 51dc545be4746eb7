"""Dead letters: one for each failure that asks for it, stamped on that failure and on no other."""

from tests.statements.calls import FAILURE
from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.relaying import Sender, nothing_sent, rows, take
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.redrive import revive
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.message import decode
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus


async def test_a_dead_letter_is_sent_once_and_stamped(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, FAILURE)

    for _ in range(3):
        await relay.round()

    (letter,) = await take(queues, settings, dead=True)
    assert decode(letter.body).turn_id == turn.id
    assert letter.attributes == {
        "traceparent": f"00-{turn.trace_id}-{turn.span_id}-01",
        "turnstile.reason": "Boom",
        "turnstile.generation": "1",
        "turnstile.attempts": "1",
        "turnstile.fence": str(turn.fence),
        "turnstile.source_queue": settings.queue,
    }
    (row,) = await rows(database)
    assert (row["status"], row["send_at"]) == ("FAILED", None)
    assert row["dead_lettered_at"] is not None
    assert await nothing_sent(queues, settings)


async def test_a_failed_turn_that_wants_no_dead_letter_gets_none(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    quiet = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Reject", error="no")
    await settle_one(database, settings, await claim_one(database, settings), quiet)

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["dead_lettered_at"] is None


async def test_a_turn_that_is_redriven_while_its_dead_letter_is_on_its_way_keeps_its_wake_up(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, FAILURE)

    async def redrive() -> None:
        await revive(database, [(turn.id, 1)], [start_trace(1 << 64 | 1)], expires_in_seconds=[900.0], net_seconds=60.0)

    await Relay(database, Sender(queues, redrive), settings).round()

    (row,) = await rows(database)
    assert (row["status"], row["generation"], row["dead_lettered_at"]) == ("PENDING", 2, None)
    assert row["send_in"] > 0


async def test_a_dead_letter_stamps_no_later_failure_of_its_turn(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, FAILURE)

    async def redrive_and_fail_again() -> None:
        await revive(database, [(turn.id, 1)], [start_trace(1 << 64 | 1)], expires_in_seconds=[900.0], net_seconds=60.0)
        await settle_one(database, settings, await claim_one(database, settings), FAILURE)

    await Relay(database, Sender(queues, redrive_and_fail_again), settings).round()

    (row,) = await rows(database)
    assert (row["status"], row["generation"], row["dead_lettered_at"]) == ("FAILED", 2, None)
    assert row["send_at"] is not None
