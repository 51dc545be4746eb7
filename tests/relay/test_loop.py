"""The relay: what is due by `send_at` is sent, by any number of relays, and nothing is lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from tests.statements.test_claim_races import claim_one, expire_leases, settle_one, submit_turns
from tests.support.factories import Proven, make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.relay.queues import BATCH
from turnstile.relay.sends import A_CALL, SIDE_BY_SIDE
from turnstile.statements.redrive import revive
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.message import decode
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

FAILURE = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class="Boom", error="x", dead_letter=True
)
RETRY = Settlement(
    status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, after_seconds=600, fault=True, error_class="Boom"
)


@pytest.fixture
def relay(database: Database, queues: MessageQueues, settings: Settings) -> Relay:
    return Relay(database, queues, settings, Proven())


async def change(database: Database, what: LiteralString) -> None:
    await database.fetch(f"UPDATE turns SET {what}", {})


async def make_due(database: Database) -> None:
    await change(database, "send_at = now() - interval '1 s'")


async def rows(database: Database) -> list[dict[str, Any]]:
    return await database.fetch(
        "SELECT *, extract(epoch FROM send_at - clock_timestamp())::float8 AS send_in FROM turns ORDER BY created_at, seq",
        {},
    )


async def take(
    queues: MessageQueues, settings: Settings, many: int = 1, *, dead: bool = False
) -> list[ReceivedMessage]:
    """That many messages from the queue, which are then deleted."""
    found: list[ReceivedMessage] = []

    async def enough() -> bool:
        found.extend(await queues.receive(settings.queue, 10, dead=dead))
        return len(found) >= many

    await until(enough)
    await queues.delete(settings.queue, found, dead=dead)
    assert len(found) == many
    return found


async def nothing_sent(queues: MessageQueues, settings: Settings) -> bool:
    return await queues.count(settings.queue) + await queues.count(settings.queue, dead=True) == 0


class Sender:
    """Something that happens around the sending of the real one."""

    def __init__(self, queues: MessageQueues, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._queues = queues
        self._meanwhile = meanwhile

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        await self._meanwhile()
        return await self._queues.send(queue, messages)

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        await self._meanwhile()
        return await self._queues.send_dead_letters(queue, letters)


# --- wake-ups that were lost


async def test_a_wake_up_that_was_lost_is_sent_when_the_net_is_over(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    await relay.round()

    (message,) = await take(queues, settings)
    (row,) = await rows(database)
    assert decode(message.body).turn_id == row["id"]
    assert message.attributes["traceparent"] == f"00-{row['trace_id']}-{row['span_id']}-01"
    assert (row["status"], row["sends"]) == ("PENDING", 1)
    assert row["send_in"] > 0


async def test_nothing_is_sent_before_the_net_is_over(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    before = await rows(database)

    assert await relay.round() is False

    assert await nothing_sent(queues, settings)
    assert [row["send_at"] for row in await rows(database)] == [row["send_at"] for row in before]


async def test_the_net_doubles_with_each_send_and_ends_at_an_hour(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    relay = Relay(database, queues, settings.model_copy(update={"net_seconds": 1000.0}))
    await submit_turns(database, settings, "one")
    nets = []
    for _ in range(4):
        await make_due(database)
        await relay.round()
        nets.append((await rows(database))[0]["send_in"])

    assert [round(net, -2) for net in nets] == [1000, 2000, 3600, 3600]


async def test_the_net_is_twice_as_long_as_turns_wait_at_present(
    database: Database, settings: Settings, relay: Relay
) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, dwell_seconds) VALUES ('w', %(q)s, 'h', 1, 1, 600)",
        {"q": settings.queue},
    )
    await submit_turns(database, settings, "one")
    await make_due(database)

    await relay.round()

    assert round((await rows(database))[0]["send_in"], -2) == 1200


async def test_a_backlog_is_sent_in_full(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(BATCH + 30)))
    await make_due(database)

    assert await relay.round() is True
    assert await relay.round() is False

    assert await queues.count(settings.queue) == BATCH + 30


# --- schedules and retries


async def test_a_scheduled_turn_has_no_place_and_no_message_before_its_time(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit(database, [make_submission(settings.queue, execute_at=later)], net_seconds=60.0)

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["seq"] is None


async def test_a_scheduled_turn_gets_its_place_when_it_falls_due(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit(database, [make_submission(settings.queue, content="later", execute_at=later)], net_seconds=60.0)
    await submit_turns(database, settings, "now")
    await database.fetch(
        "UPDATE turns SET execute_at = now() - interval '1 s', send_at = now() - interval '1 s' WHERE seq IS NULL", {}
    )

    await relay.round()

    scheduled, _ = await rows(database)
    assert scheduled["seq"] == 2
    (message,) = await take(queues, settings)
    assert decode(message.body).turn_id == scheduled["id"]


async def test_scheduled_turns_stand_in_the_order_of_their_times(
    database: Database, settings: Settings, relay: Relay
) -> None:
    now = datetime.now(UTC)
    hours = [3, 1, 2]
    await submit(
        database,
        [make_submission(settings.queue, content=hour, execute_at=now + timedelta(hours=hour)) for hour in hours],
        net_seconds=60.0,
    )
    await change(database, "execute_at = execute_at - interval '4 hours', send_at = now() - interval '1 s'")

    await relay.round()

    found = await database.fetch("SELECT m.content FROM turns t JOIN messages m ON m.turn_id = t.id ORDER BY t.seq", {})
    assert [row["content"] for row in found] == [1, 2, 3]


async def test_a_retry_is_sent_when_it_is_due(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings), RETRY)
    await relay.round()
    assert await nothing_sent(queues, settings)
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")

    await relay.round()

    await take(queues, settings)
    assert isinstance(await claim_one(database, settings), ClaimedTurn)


# --- leases that ran out


async def test_a_turn_whose_lease_ran_out_is_sent_and_sent_again_until_it_is_claimed(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await expire_leases(database)

    await relay.round()

    await take(queues, settings)
    (row,) = await rows(database)
    assert (row["status"], row["sends"]) == ("RUNNING", 1)
    assert row["send_in"] <= settings.takeover_resend_seconds
    await make_due(database)

    await relay.round()

    await take(queues, settings)
    (row,) = await rows(database)
    assert settings.takeover_resend_seconds < row["send_in"] <= 2 * settings.takeover_resend_seconds


async def test_a_turn_whose_lease_is_alive_is_left_to_its_worker(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await change(database, "lease_until = now() + interval '1 hour'")

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["send_at"] is None


async def test_a_lease_that_was_renewed_after_all_is_forgotten(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await expire_leases(database)
    await relay.round()
    await take(queues, settings)
    await change(database, "lease_until = now() + interval '1 hour', send_at = now() - interval '1 s'")

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["send_at"] is None


# --- dead letters


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


# --- between send and net


async def test_a_claim_that_comes_while_its_wake_up_is_sent_is_not_overwritten(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    await Relay(database, Sender(queues, lambda: claim_one(database, settings)), settings).round()

    (row,) = await rows(database)
    assert (row["status"], row["send_at"], row["sends"]) == ("RUNNING", None, 0)


async def test_a_retry_that_comes_while_its_wake_up_is_sent_keeps_its_time(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    async def claim_and_retry() -> None:
        await settle_one(database, settings, await claim_one(database, settings), RETRY)

    await Relay(database, Sender(queues, claim_and_retry), settings).round()

    (row,) = await rows(database)
    assert row["sends"] == 0
    assert row["send_in"] > 300


async def test_a_relay_that_dies_between_taking_and_sending_loses_nothing(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    class DyingError(Exception):
        pass

    async def die() -> None:
        raise DyingError

    await submit_turns(database, settings, "one")
    await make_due(database)
    await Relay(database, Sender(queues, die), settings).round()
    (row,) = await rows(database)
    assert 0 < row["send_in"] <= settings.relay_stamp_seconds
    await make_due(database)

    await relay.round()

    await take(queues, settings)


# --- several relays


async def test_relays_that_run_at_once_send_each_row_once(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(60)))
    await make_due(database)
    relays = [Relay(database, queues, settings) for _ in range(3)]

    await asyncio.gather(*(relay.round() for relay in relays))

    messages = await take(queues, settings, 60)
    assert len({decode(message.body).turn_id for message in messages}) == 60
    assert {row["sends"] for row in await rows(database)} == {1}


async def test_relays_that_run_at_once_place_each_scheduled_turn_once(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for session in ("a", "b"):
        await submit(
            database,
            [make_submission(settings.queue, session, number, execute_at=later) for number in range(20)],
            net_seconds=60.0,
        )
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")

    await asyncio.gather(*(Relay(database, queues, settings).round() for _ in range(3)))

    found = await database.fetch("SELECT session_id, seq FROM turns ORDER BY 1, 2", {})
    assert [(row["session_id"], row["seq"]) for row in found] == [
        (session, seq) for session in ("a", "b") for seq in range(1, 21)
    ]


async def test_a_session_that_somebody_holds_keeps_no_other_waiting(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for session in ("held", "free"):
        await submit(database, [make_submission(settings.queue, session, execute_at=later)], net_seconds=60.0)
    await submit_turns(database, settings, "waits", session_id="unsent")
    await change(database, "execute_at = now() - interval '1 s' WHERE seq IS NULL")
    await make_due(database)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as somebody:
        await somebody.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR NO KEY UPDATE")

        await relay.round()

        sent = {decode(message.body).session_id for message in await take(queues, settings, 2)}
    assert sent == {"free", "unsent"}
    await relay.round()
    (message,) = await take(queues, settings)
    assert decode(message.body).session_id == "held"


async def test_a_session_that_somebody_holds_keeps_no_other_waiting_however_many_are_due_in_it(
    database: Database, settings: Settings, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    many = [make_submission(settings.queue, "held", number, execute_at=later) for number in range(BATCH + 1)]
    await submit(database, many, net_seconds=60.0)
    await submit(database, [make_submission(settings.queue, "free", execute_at=later)], net_seconds=60.0)
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")
    await change(database, "send_at = now() - interval '1 h' WHERE session_id = 'held'")
    async with await psycopg.AsyncConnection.connect(settings.database_url) as somebody:
        await somebody.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR NO KEY UPDATE")

        await relay.round()

        found = await database.fetch("SELECT seq FROM turns WHERE session_id = 'free'", {})
    assert [row["seq"] for row in found] == [1]


# --- outages


async def test_with_sqs_away_rows_stay_owed_and_due(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    nowhere = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": "http://127.0.0.1:1"}))
    await submit_turns(database, settings, "one", "two")
    await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await make_due(database)

    await Relay(database, nowhere, settings).round()

    await nowhere.close()
    failed, waiting = await rows(database)
    # What it can't send it leaves to other relays at once.
    assert waiting["send_in"] < 0
    assert failed["send_in"] < 0
    assert (waiting["sends"], failed["dead_lettered_at"]) == (0, None)

    await relay.round()

    await take(queues, settings)
    await take(queues, settings, dead=True)


async def test_a_queue_that_nobody_declared_holds_up_no_other(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit(
        database, [make_submission("aaa-undeclared", "s-1"), make_submission(settings.queue)], net_seconds=60.0
    )
    await make_due(database)

    await relay.round()

    await take(queues, settings)
    undeclared = [row for row in await rows(database) if row["queue"] == "aaa-undeclared"]
    assert undeclared[0]["send_in"] < 0, "it is left as it is, to a relay that knows its queue"


async def test_what_the_stamp_no_longer_covers_is_left_to_the_next_round(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    async def too_long() -> None:
        async def is_over() -> bool:
            return all(row["send_in"] < 0 for row in await rows(database))

        await until(is_over)

    short = settings.model_copy(update={"relay_stamp_seconds": 0.3})
    begun = SIDE_BY_SIDE * A_CALL
    await submit_turns(database, settings, *[f"session {n}" for n in range(begun + 15)])
    await make_due(database)

    await Relay(database, Sender(queues, too_long), short).round()

    # Another relay may have them by now: two that both go on would send all of it twice, and neither would count it.
    assert [row["sends"] for row in await rows(database)].count(0) == 15
    await take(queues, settings, begun)
    await relay.round()
    await take(queues, settings, 15)
    assert {row["sends"] for row in await rows(database)} == {1}


async def test_the_loop_outlasts_an_outage(database: Database, settings: Settings, queues: MessageQueues) -> None:
    tries = 0

    async def away_at_first() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise QueueUnavailableError("away")

    quick = settings.model_copy(update={"relay_stamp_seconds": 0.05, "relay_tick_seconds": 0.05})
    stopping = asyncio.Event()
    await submit_turns(database, settings, "one")
    await make_due(database)

    running = asyncio.create_task(Relay(database, Sender(queues, away_at_first), quick).run(stopping))
    await take(queues, settings)
    stopping.set()
    await running

    assert tries == 3


async def test_a_nudge_is_heeded_before_the_tick(database: Database, settings: Settings, queues: MessageQueues) -> None:
    stopping = asyncio.Event()
    relay = Relay(database, queues, settings.model_copy(update={"relay_tick_seconds": 3600.0}))
    running = asyncio.create_task(relay.run(stopping))
    await until(lambda: relay._forgot_at > 0)  # its first round is over
    await submit_turns(database, settings, "one")
    await make_due(database)

    relay.nudge()

    await take(queues, settings)
    stopping.set()
    await asyncio.wait_for(running, 10)


# --- housekeeping


async def test_old_idempotency_keys_are_forgotten(database: Database, settings: Settings, relay: Relay) -> None:
    await submit(database, [make_submission(settings.queue, key=f"key:{name}") for name in "ab"], net_seconds=60.0)
    await database.fetch("UPDATE submissions SET created_at = now() - interval '2 days' WHERE key = 'key:a'", {})

    await relay.round()

    assert [row["key"] for row in await database.fetch("SELECT key FROM submissions", {})] == ["key:b"]


async def test_what_became_due_long_ago_is_found_by_the_first_round(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await change(database, "send_at = now() - interval '3 days'")

    await relay.round()

    await take(queues, settings)


async def test_a_turn_that_was_ended_meanwhile_is_owed_nothing(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings))

    await relay.round()

    assert await nothing_sent(queues, settings)
    ended: list[UUID] = [row["id"] for row in await rows(database) if row["send_at"] is not None]
    assert ended == []
