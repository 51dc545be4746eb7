"""The relay under trouble: a backlog from long ago is worked off at once, and one queue's refusal is its own affair."""

import re
from collections.abc import Sequence
from typing import Any, LiteralString, NoReturn
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import DictRow

from tests.support.claiming import submit_turns
from tests.support.factories import make_submission
from tests.support.relaying import declaring
from turnstile.backends.postgres.database import Database, Parameters, conninfo, number_placeholders
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError
from turnstile.memory.durable_items import PRUNE_ITEMS
from turnstile.message_queue import MessageQueues
from turnstile.relay import loop as relay_module
from turnstile.relay import queues as relay_queues
from turnstile.relay.loop import Relay
from turnstile.relay.queues import BATCH
from turnstile.statements.cancel_before_submit import FORGET_CHOSEN_IDS
from turnstile.statements.submit import FORGET_SUBMISSIONS, submit
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.message import WakeUp


class Sender:
    """Takes all that it is given, except for the queues that refuse."""

    def __init__(self, *refusing: str) -> None:
        self._refusing = refusing
        self.sent: list[OutgoingMessage] = []

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        if queue in self._refusing:
            raise QueueUnavailableError("AccessDenied")
        self.sent += messages
        return list(messages)

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        raise AssertionError(f"{queue}: {letters}")


async def make_due(database: Database, seconds_ago: float) -> None:
    await database.fetch("UPDATE turns SET send_at = now() - make_interval(secs => %(ago)s)", {"ago": seconds_ago})


@pytest.mark.parametrize("seconds_ago", [1.0, 300.0, 86_400.0])
async def test_a_backlog_of_any_age_is_worked_off_round_by_round(
    database: Database, settings: Settings, seconds_ago: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_queues, "BATCH", 200)
    many = 500
    await submit_turns(database, settings, *map(str, range(many)))
    await make_due(database, seconds_ago)
    sender = Sender()
    relay = Relay(database, sender, settings)

    assert [await relay.round() for _ in range(3)] == [True, True, False]

    assert len({message.wake_up.turn_id for message in sender.sent}) == many


async def test_a_backlog_that_was_left_behind_by_a_full_round_is_not_forgotten(
    database: Database, settings: Settings
) -> None:
    """The old end counts as empty only once a round has found it so."""
    sender = Sender()
    relay = Relay(database, sender, settings)
    await submit_turns(database, settings, *map(str, range(BATCH)))
    await make_due(database, 300.0)
    assert await relay.round() is True
    await submit_turns(database, settings, "one more", session_id="other")
    await database.fetch("UPDATE turns SET send_at = now() - interval '300 s' WHERE session_id = 'other'", {})

    await relay.round()

    assert len(sender.sent) == BATCH + 1


@pytest.mark.parametrize("refusing", ["aaa", "zzz"])
async def test_a_queue_that_refuses_holds_up_no_other(database: Database, settings: Settings, refusing: str) -> None:
    settings = declaring(settings, refusing)
    await submit(
        database,
        [make_submission(refusing, "refused"), *(make_submission(settings.queue, f"s-{n}") for n in range(5))],
        net_seconds=60.0,
    )
    await make_due(database, 1.0)
    sender = Sender(refusing)

    await Relay(database, sender, settings).round()

    assert {message.wake_up.session_id for message in sender.sent} == {f"s-{number}" for number in range(5)}
    [refused] = await database.fetch(
        "SELECT sends, send_at > now() AS later FROM turns WHERE queue <> %(q)s", {"q": settings.queue}
    )
    assert refused == {"sends": 0, "later": False}, "it is left to a relay that can send it"


def break_sends(monkeypatch: pytest.MonkeyPatch, queues: MessageQueues, good: int) -> None:
    """The real calls, which find no SQS after some good sends."""
    call, sends = queues._client.call, 0

    async def asked(operation: str, parameters: Any) -> Any:
        nonlocal sends
        sends += operation == "SendMessageBatch"
        if sends > good:
            raise QueueUnavailableError("gone")
        return await call(operation, parameters)

    monkeypatch.setattr(queues._client, "call", asked)


async def test_what_was_sent_before_sqs_went_away_counts_as_sent(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(25)]
    break_sends(monkeypatch, queues, 1)

    assert await queues.send(settings.queue, messages) == messages[:10]

    monkeypatch.undo()
    assert await queues.count(settings.queue) == 10


async def test_a_send_of_which_nothing_was_taken_says_that_sqs_is_away(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(25)]
    break_sends(monkeypatch, queues, 0)

    with pytest.raises(QueueUnavailableError):
        await queues.send(settings.queue, messages)


# --- what is old is forgotten


FILL_OLD: tuple[LiteralString, ...] = (
    """INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer, created_at)
       SELECT 't', 'key:' || g, '', gen_random_uuid(), '{}', now() - interval '400 days' + g * interval '1 s'
         FROM generate_series(1, %(many)s::int) g""",
    """INSERT INTO chosen_ids (tenant_id, turn_id, created_at)
       SELECT 't', gen_random_uuid(), now() - interval '400 days' + g * interval '1 s'
         FROM generate_series(1, %(many)s::int) g""",
    """INSERT INTO memory_items (tenant_id, session_id, kind, key, priority, tags, version, write_id, fence, created_at,
                                 updated_at, expires_at)
       SELECT 't', 's', 'fact', g::text, 0, '{}', g, gen_random_uuid(), 1, now(), now(), now() - interval '1 day'
         FROM generate_series(1, %(many)s::int) g""",
)
FORGOTTEN: tuple[LiteralString, ...] = ("submissions", "chosen_ids", "memory_items")


async def left(database: Database) -> list[int]:
    """How many rows each of the tables has that are forgotten in."""
    return [(await database.fetch(f"SELECT count(*) AS many FROM {table}", {}))[0]["many"] for table in FORGOTTEN]


class Asked(Database):
    """Notes which deletes it is asked for."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "test", size=1, pinned=True)
        self.deletes: list[str] = []

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        if statement in (FORGET_SUBMISSIONS, FORGET_CHOSEN_IDS, PRUNE_ITEMS):
            self.deletes.append(statement)
        return await super().fetch(statement, parameters)


async def test_more_than_one_statement_forgets_is_forgotten_round_by_round(
    database: Database, settings: Settings
) -> None:
    for fill in FILL_OLD:
        await database.fetch(fill, {"many": 2_500})
    relay = Relay(database, Sender(), settings)

    counts = []
    for _ in range(3):
        await relay.round()
        counts.append(await left(database))

    assert counts == [[1_500] * 3, [500] * 3, [0] * 3]


@pytest.mark.parametrize("place", range(3), ids=FORGOTTEN)
async def test_a_table_that_has_more_to_forget_does_not_wait_for_the_others(
    database: Database, settings: Settings, place: int
) -> None:
    await database.fetch(FILL_OLD[place], {"many": 1_001})
    relay = Relay(database, Sender(), settings)

    await relay.round()
    await relay.round()

    assert await left(database) == [0, 0, 0]


async def test_with_nothing_more_to_forget_nobody_is_asked_before_the_minute_is_over(settings: Settings) -> None:
    async with Asked(settings.database_url) as database:
        await database.fetch(FILL_OLD[0], {"many": 999})
        relay = Relay(database, Sender(), settings)

        for _ in range(3):
            await relay.round()

        assert database.deletes == [FORGET_SUBMISSIONS, FORGET_CHOSEN_IDS, PRUNE_ITEMS]


async def test_a_backlog_that_postgres_does_not_forget_in_time_is_not_tried_each_round(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try would keep what is due waiting for as long as a statement may take."""
    async with Asked(settings.database_url) as database:
        await database.fetch(FILL_OLD[0], {"many": 2_500})
        relay = Relay(database, Sender(), settings)
        monkeypatch.setattr(relay_module, "forget_chosen_ids", breaks_off)

        for _ in range(2):
            await relay.round()

        assert database.deletes == [FORGET_SUBMISSIONS, PRUNE_ITEMS]


async def breaks_off(*_: object) -> NoReturn:
    raise DatabaseUnavailableError("canceling statement due to statement timeout")


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (FORGET_SUBMISSIONS, "submissions_created_at"),
        (FORGET_CHOSEN_IDS, "chosen_ids_created_at"),
        (PRUNE_ITEMS, "memory_items_expires_at"),
    ],
    ids=FORGOTTEN,
)
def test_what_is_forgotten_is_found_by_its_age_and_read_no_further(
    settings: Settings, statement: LiteralString, index: str
) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        for fill, table in zip(FILL_OLD, FORGOTTEN, strict=True):
            connection.execute(fill, {"many": 20_000})
            connection.execute(f"ANALYZE {table}")
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}").fetchall()

    text = "\n".join(line for (line,) in plan)
    assert re.search(rf"Limit\n +-> +LockRows\n +-> +Index Scan using {index}", text), text
