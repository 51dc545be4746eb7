"""The worker as a Lambda function, with events of the emulator's queue: every message is answered for, within the time."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest
import redis
import structlog.testing

from tests.conftest import environment_of, sqs_client
from tests.support.event_source import EventSource
from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.handlers.handler import Context, Handler, Retry, Turn
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp, decode
from turnstile.worker.aws_lambda import handler as lambda_handler
from turnstile.worker.aws_lambda import invocation as lambda_invocation
from turnstile.worker.aws_lambda.event import EventRefusedError
from turnstile.worker.aws_lambda.handler import Function, handle
from turnstile.worker.session_lock import name_lock

MakeFunction = Callable[..., Function]


@pytest.fixture
def visibility_seconds() -> float:
    """So long that no test sees a message again that nobody gave back."""
    return 600.0


@pytest.fixture
def source(stack: Stack, settings: Settings, queue: QueueSettings) -> EventSource:
    return EventSource(sqs_client(stack), queue)


@pytest.fixture
def function(settings: Settings) -> Iterator[MakeFunction]:
    """Makes functions; each is a container."""
    made: list[Function] = []

    def make(handler: Any = answer, settings: Settings = settings) -> Function:
        made.append(Function(settings, Handler(handler)))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def answer(turn: Turn, _: Context) -> Any:
    return turn.input


async def never_end(_: Turn, __: Context) -> None:
    await asyncio.Event().wait()


async def send_turns(
    database: Database, queues: MessageQueues, settings: Settings, *sessions: str, **fields: Any
) -> None:
    wanted = [make_submission(settings.queue, session, session, **fields) for session in sessions]
    accepted = await submit(database, wanted, net_seconds=600.0)
    messages = [
        OutgoingMessage(WakeUp("t", one.session_id, one.turn_id), "") for one in accepted if isinstance(one, Accepted)
    ]
    await queues.send(settings.queue, messages)


async def rows(database: Database, *columns: str) -> list[tuple[Any, ...]]:
    found = await database.fetch("SELECT *, send_at <= now() AS owed FROM turns ORDER BY session_id, seq", {})
    return [tuple(row[column] for column in columns) for row in found]


# --- what is answered


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_batch_is_answered_and_nothing_of_it_reported(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    await send_turns(database, queues, settings, "a", "b", "c")

    assert await source.invoke(function(), await source.poll(3)) == []

    assert await rows(database, "status", "attempt") == [("SUCCEEDED", 1)] * 3
    assert await queues.count(settings.queue) == 0


async def test_the_turns_of_a_session_are_answered_in_their_order(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    answered: list[int] = []
    await send_turns(database, queues, settings, *["a"] * 5)

    async def note(turn: Turn, _: Context) -> str:
        answered.append(turn.seq)
        return "ok"

    assert await source.invoke(function(note), await source.poll(5)) == []

    assert answered == [1, 2, 3, 4, 5]


async def test_a_turn_that_is_to_be_tried_again_is_the_rows_affair_and_no_longer_the_messages(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    async def fail(_: Turn, __: Context) -> None:
        raise Retry(after=600)

    await send_turns(database, queues, settings, "a")

    assert await source.invoke(function(fail), await source.poll(1)) == []

    assert await rows(database, "status", "failures") == [("PENDING", 1)]


async def test_a_session_that_another_worker_is_on_is_left_to_it(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    """Its holder has been told to look once more; a message that came back would only be turned away again."""
    lock = OwnSessionLock(settings)
    held = name_lock(settings, "t", "a", "somebody")
    await lock.acquire(held)
    await send_turns(database, queues, settings, "a", "b")

    assert await source.invoke(function(), await source.poll(2)) == []

    assert await rows(database, "status") == [("PENDING",), ("SUCCEEDED",)]
    assert (await lock.release(held)).value == "look again"
    await lock.close()


async def test_a_session_whose_head_somebody_sits_on_keeps_its_message(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its row could not be written: with the message deleted there would be no wake-up but the net's."""
    monkeypatch.setattr(lambda_invocation, "BACK_AFTER_SECONDS", 1)
    await send_turns(database, queues, settings, "a", "b")

    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute("SELECT 1 FROM turns WHERE session_id = 'a' FOR NO KEY UPDATE")
        kept = await source.invoke(function(), await source.poll(2))
        somebody.rollback()

    assert [decode(body).session_id for body in kept] == ["a"]
    assert await rows(database, "status") == [("PENDING",), ("SUCCEEDED",)]
    assert await source.invoke(function(), await source.poll(1)) == []
    assert await rows(database, "status") == [("SUCCEEDED",), ("SUCCEEDED",)]


# --- what can't be read


async def test_what_cannot_be_read_goes_to_the_dlq_and_its_neighbours_are_answered(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")

    assert await source.invoke(function(), await source.poll(2)) == []

    [dead] = await queues.receive(settings.queue, 10, dead=True)
    assert dead.body == "not ours"
    assert await rows(database, "status") == [("SUCCEEDED",)]


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_what_the_dlq_does_not_take_comes_back_alone_and_soon(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lambda_invocation, "BACK_AFTER_SECONDS", 1)
    source.send("not ours")
    await send_turns(database, queues, settings, "a")

    async def refuse(*_: Any) -> None:
        raise QueueUnavailableError("the DLQ is away")

    with monkeypatch.context() as away:
        away.setattr(MessageQueues, "dead_letter_malformed", refuse)
        assert await source.invoke(function(), await source.poll(2)) == ["not ours"]

    assert await rows(database, "status") == [("SUCCEEDED",)]
    assert await source.invoke(function(), await source.poll(1)) == []
    assert await queues.count(settings.queue) == 0


async def test_messages_whose_queue_has_vanished_are_reported_and_their_neighbours_are_not(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")
    event = await source.poll(2)

    async def vanished(*_: Any, **__: Any) -> None:
        raise UnknownQueueError(settings.queue)

    monkeypatch.setattr(MessageQueues, "dead_letter_malformed", vanished)
    monkeypatch.setattr(MessageQueues, "give_back", vanished)

    with structlog.testing.capture_logs() as lines:
        assert await source.invoke(function(), event) == ["not ours"]

    assert await rows(database, "status") == [("SUCCEEDED",)]
    told = [line["log_level"] for line in lines if line["event"].startswith("lambda.") and "error" in line]
    assert (told, [line for line in lines if line["event"] == "lambda.failed"]) == (["warning"], [])


# --- the time


async def test_a_turn_that_does_not_fit_is_handed_back_free_of_charge_and_within_the_time(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function(never_end)
    # A function that has half a minute, of which this invocation finds little left.
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    event = await source.poll(1)
    began = time.monotonic()

    assert await source.invoke(one, event, seconds=12.0) == []

    assert time.monotonic() - began < 12.0
    assert await rows(database, "status", "attempt", "failures", "crashes", "owed") == [("PENDING", 0, 0, 0, True)]


async def test_what_was_handed_back_is_woken_by_the_relay_and_answered_by_the_next_invocation(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function(never_end)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1), seconds=12.0)

    await Relay(database, queues, settings).round()
    await source.invoke(function(), await source.poll(1))

    assert await rows(database, "status", "attempt") == [("SUCCEEDED", 1)]


async def test_a_turn_that_no_invocation_is_long_enough_for_has_timed_out(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    """Handed back free of charge it would be begun again for ever."""
    await send_turns(database, queues, settings, "a")
    with structlog.testing.capture_logs() as lines:
        assert await source.invoke(function(never_end), await source.poll(1), seconds=14.0) == []

    [(attempt, failures)] = await rows(database, "attempt", "failures")
    assert attempt == failures >= 1
    assert [line["timeout_seconds"] for line in lines if line["event"] == "lambda.attempts_are_cut"] == [20.0]


async def test_towards_the_end_no_next_turn_of_a_session_is_begun(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    await send_turns(database, queues, settings, "a", "a")
    longer = settings.model_copy(update={"grace_seconds": 60.0})
    event = await source.poll(2)
    with structlog.testing.capture_logs() as lines:

        async def take_until_the_end_is_near(_: Turn, __: Context) -> str:
            await until(lambda: [line for line in lines if line["event"] == "shutdown.draining"])
            return "ok"

        await source.invoke(function(take_until_the_end_is_near, longer), event, seconds=14.0)

    assert await rows(database, "status", "owed") == [("SUCCEEDED", None), ("PENDING", True)]


async def test_without_time_nothing_is_begun_and_everything_is_visible_at_once(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    await send_turns(database, queues, settings, "a", "b")

    assert len(await source.invoke(function(), await source.poll(2), seconds=4.0)) == 2

    assert await rows(database, "status", "attempt") == [("PENDING", 0)] * 2
    assert await source.invoke(function(), await source.poll(2)) == []


@pytest.mark.parametrize("fifo", [True])
async def test_on_a_fifo_queue_a_session_does_not_wait_for_the_slowest_turn_of_its_batch(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    """Its message is deleted when its claim is committed, so that the next one of its group can be delivered."""
    slow_may_end = threading.Event()

    async def wait_if_slow(turn: Turn, _: Context) -> str:
        if turn.session_id == "slow":
            await asyncio.to_thread(slow_may_end.wait)
        return "ok"

    await send_turns(database, queues, settings, "slow", "quick")
    first = asyncio.create_task(source.invoke(function(wait_if_slow), await source.poll(2)))
    await until(lambda: _succeeded(database, "quick"))
    await send_turns(database, queues, settings, "quick")

    await source.invoke(function(), await source.poll(1))

    slow_may_end.set()
    assert await first == []
    assert await rows(database, "session_id", "status") == [
        ("quick", "SUCCEEDED"), ("quick", "SUCCEEDED"), ("slow", "SUCCEEDED"),
    ]  # fmt: skip


async def _succeeded(database: Database, session: str) -> bool:
    return (session, "SUCCEEDED") in await rows(database, "session_id", "status")


# --- Postgres away


async def test_with_postgres_away_everything_is_reported_within_the_time_and_comes_back_soon(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lambda_invocation, "BACK_AFTER_SECONDS", 1)
    await send_turns(database, queues, settings, "a", "b")
    away = settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/none"})
    event = await source.poll(2)
    began = time.monotonic()

    assert len(await source.invoke(function(settings=away), event, seconds=12.0)) == 2

    assert time.monotonic() - began < 12.0
    assert await source.invoke(function(), await source.poll(2)) == []
    assert await rows(database, "status", "attempt") == [("SUCCEEDED", 1)] * 2


# --- between two invocations


async def test_a_warm_container_keeps_its_connections(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function()
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1))
    before = await _connections(database)
    await send_turns(database, queues, settings, "b")

    await source.invoke(one, await source.poll(1))

    assert before
    assert before <= await _connections(database)
    assert await rows(database, "status") == [("SUCCEEDED",)] * 2


async def test_a_container_that_has_rested_long_does_not_take_its_dead_connections_for_an_outage(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = function()
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1))
    await database.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnstile-lambda'"
        " AND datname = current_database()",
        {},
    )
    to_sqs = cast("Any", one._queues)._client._http
    monkeypatch.setattr(lambda_handler, "LONG_REST_SECONDS", 0.0)
    await send_turns(database, queues, settings, "b")

    with structlog.testing.capture_logs() as lines:
        await source.invoke(one, await source.poll(1))

    assert await rows(database, "status") == [("SUCCEEDED",)] * 2
    assert "database.away" not in {line["event"] for line in lines}
    # Nobody knows what has become of those either.
    assert to_sqs.closed


async def test_after_an_invocation_nothing_is_held_and_no_heartbeat_beats(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
) -> None:
    one = function(never_end)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")

    await source.invoke(one, await source.poll(1), seconds=12.0)

    with redis.Redis.from_url(settings.redis_url) as looking:
        assert list(looking.scan_iter(f"{settings.redis_prefix}lock:*")) == []
    assert await database.fetch("SELECT worker_id FROM workers", {}) == []
    assert [thread for thread in threading.enumerate() if thread.name == "heartbeat"] == []


async def test_a_handler_that_outlives_its_invocation_answers_nothing_after_the_thaw(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    may_end = threading.Event()

    def deaf(_: Turn, __: Context) -> str:
        may_end.wait()
        return "too late"

    one = function(deaf)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1), seconds=12.0)
    assert await rows(database, "status", "attempt") == [("PENDING", 0)]
    await Relay(database, queues, settings).round()
    await source.invoke(function(), await source.poll(1))
    may_end.set()
    await send_turns(database, queues, settings, "b")

    await source.invoke(one, await source.poll(1))

    replies = await database.fetch("SELECT content FROM messages WHERE role = 'assistant' ORDER BY created_at", {})
    assert [row["content"] for row in replies] == ["a", "too late"]


async def _connections(database: Database) -> set[int]:
    found = await database.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnstile-lambda' AND datname = current_database()",
        {},
    )
    return {row["pid"] for row in found}


# --- as Lambda calls it


class LambdaContext:
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 20_000


async def test_lambda_calls_it_with_an_event_and_a_context_and_everything_else_is_in_the_environment(
    stack: Stack,
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    queue: QueueSettings,
    source: EventSource,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {
        **environment_of(stack),
        "DATABASE_URL": settings.database_url,
        "TURNSTILE_QUEUES": f"[{queue.model_dump_json()}]",
        "TURNSTILE_QUEUE": settings.queue,
        "TURNSTILE_REDIS_PREFIX": settings.redis_prefix,
        "TURNSTILE_HANDLER": "tests.worker.aws_lambda.test_invocation:answer",
        "TURNSTILE_LOG_LEVEL": "error",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TURNSTILE_API_KEYS", raising=False)
    monkeypatch.setattr(lambda_handler, "_function", None)
    monkeypatch.setattr("turnstile.config.logs.configure", lambda _: None)
    await send_turns(database, queues, settings, "a")
    event = await source.poll(1)

    answered = await asyncio.to_thread(handle, event, LambdaContext())

    assert answered == {"batchItemFailures": []}
    assert await rows(database, "status") == [("SUCCEEDED",)]
    with pytest.raises(EventRefusedError):
        await asyncio.to_thread(handle, {"Records": [{}]}, LambdaContext())
    assert lambda_handler._function is not None
    await asyncio.to_thread(lambda_handler._function.close)
