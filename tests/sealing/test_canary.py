"""Words that users and handlers say, planted wherever a content can be: after the turns they stand in no place but for users."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis.asyncio
import structlog.testing
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest

from tests.conftest import sqs_client
from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.support.processors import Noting
from tests.support.stacks.stack import Stack
from tests.support.stored_text import columns_with, everything_in
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Snooze
from turnstile.handlers.handler import Handler, handler
from turnstile.telemetry.instruments import REGISTRY
from turnstile.telemetry.spans import Spans
from turnstile.telemetry.turn_spans import TurnSpans
from turnstile.turn.envelope import OutgoingMessage

CANARY = "kanarienvogel"
"""In each content, followed by the name of its place."""


def undo(turn: Turn, _: Context) -> Any:
    """The compensation: it gets the contents of the failed turn."""
    told = turn.input
    assert (told["error"], told["inputs"][0]["say"]) == (f"{CANARY} error", f"{CANARY} input")
    assert told["values"] == {"charge": {"id": f"{CANARY} value"}}
    return f"{CANARY} undone"


@handler(max_attempts=1, on_failed=undo)
async def act(turn: Turn, ctx: Context) -> Any:
    """Says the canary in each way that a handler has."""
    do = turn.input["do"]
    if do == "child":
        return f"{CANARY} child's reply"
    if do == "snooze" and ctx.attempt == 1 and not await ctx.memory.get("snoozed"):
        await ctx.memory.set("snoozed", f"{CANARY} item")
        raise Snooze(f"{CANARY} reason", after=0.01)
    await ctx.once("charge", lambda: {"id": f"{CANARY} value"})
    if do == "fail":
        raise LookupError(f"{CANARY} error")
    await ctx.emit(f"{CANARY} delta")
    await ctx.emit({"custom": f"{CANARY} event"})
    await ctx.memory.set("draft", {"of": f"{CANARY} item"}, metadata={"why": f"{CANARY} metadata of an item"})
    await ctx.memory.set("name", f"{CANARY} fact", kind="fact")
    child = await ctx.submit({"do": "child", "say": f"{CANARY} child's input"})
    [said] = await ctx.join([child])
    assert said == f"{CANARY} child's reply"
    return {"said": [message.content for message in await ctx.history(limit=20)], "say": f"{CANARY} reply"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"api_keys": tuple(KEYS.items())})


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


class Sending(Noting):
    """Takes all that a worker sends."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:  # type: ignore[override]
        await super().send(queue, messages)
        return list(messages)


@pytest.fixture
def wake_ups() -> Sending:
    return Sending()


@pytest.fixture
async def talk(settings: Settings, spans: InMemorySpanExporter, wake_ups: Sending) -> AsyncIterator[Conversation]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    traces = TurnSpans(Spans(provider))
    async with conversing(settings, act, queues=wake_ups, traces=traces) as conversation:
        yield conversation
    provider.shutdown()


async def submit(talk: Conversation, do: str, session: str = "s") -> UUID:
    answer = await talk.client.post(
        f"/v1/sessions/{session}/turns",
        json={"input": {"do": do, "say": f"{CANARY} input"}},
        headers={"Idempotency-Key": f"{session}-{do}"},
    )
    assert answer.status_code == 202, answer.text
    return UUID(answer.json()["id"])


async def answer_all(talk: Conversation, database: Database) -> None:
    """Works until no turn is open, as wake-ups would have it."""
    for _ in range(20):
        rows = await database.fetch(
            "SELECT id, session_id FROM turns WHERE status = 'PENDING' AND joining IS NULL ORDER BY session_id, seq", {}
        )
        if not rows and not await database.fetch("SELECT 1 FROM turns WHERE status IN ('PENDING', 'RUNNING')", {}):
            return
        for row in rows:
            await talk.work(row["id"], row["session_id"])
    raise AssertionError("some turns have not ended")


async def test_without_keys_the_canary_stands_in_all_these_places(
    keyless: Database, keys: redis.asyncio.Redis, settings: Settings
) -> None:
    without = settings.model_copy(update={"sealing_keys_file": None})
    async with conversing(without, act, queues=Sending()) as talk:
        for do, session in (("speak", "s"), ("snooze", "s"), ("fail", "other")):
            await submit(talk, do, session)
        await answer_all(talk, keyless)

    # So the look for it finds it. A webhook's event and metadata have no content.
    assert await columns_with(keyless, CANARY) == [
        "memory_items.content",
        "messages.content",
        "turn_attempts.error",
        "turn_values.value",
        "turns.error",
    ]
    in_redis = await everything_in(keys, settings.redis_prefix)
    for place in ("input", "reply", "delta", "event", "item"):
        assert f"{CANARY} {place}" in in_redis


async def test_no_content_leaves_its_seal(
    talk: Conversation,
    database: Database,
    keys: redis.asyncio.Redis,
    settings: Settings,
    stack: Stack,
    spans: InMemorySpanExporter,
    wake_ups: Sending,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as lines:
        spoken = [await submit(talk, do) for do in ("speak", "snooze")]
        heard, following = talk.follow(spoken[0])
        failed = await submit(talk, "fail", "other")
        await answer_all(talk, database)
        await following

    # For users all of it is there.
    shown = [(await talk.client.get(f"/v1/turns/{turn}")).json() for turn in spoken]
    assert [turn["error"] for turn in shown] == [None, None]
    assert [turn["output"]["say"] for turn in shown] == [f"{CANARY} reply"] * 2
    assert shown[1]["output"]["said"][-1] == {"do": "snooze", "say": f"{CANARY} input"}
    assert heard.text == f"{CANARY} delta"
    assert (await talk.client.get("/v1/sessions/s/messages")).text.count(CANARY) >= 4
    assert (await talk.client.get(f"/v1/turns/{failed}")).json()["status"] == "FAILED"
    [undone] = await database.fetch("SELECT id, status FROM turns WHERE kind = 'compensation'", {})
    assert undone["status"] == "SUCCEEDED"

    # For nobody else.
    assert await columns_with(database, CANARY) == []
    in_redis = await everything_in(keys, settings.redis_prefix)
    assert "history:session" in in_redis
    assert "events:turn" in in_redis
    assert "item:draft" in in_redis
    assert CANARY not in in_redis
    assert lines
    assert CANARY not in str(lines) + caplog.text + "".join(capsys.readouterr())
    assert CANARY not in generate_latest(REGISTRY).decode()
    finished = spans.get_finished_spans()
    assert finished
    assert CANARY not in "".join(span.to_json() for span in finished)
    received = receive_all(stack, settings)
    assert received
    assert CANARY not in received + str(wake_ups.sent) + str(wake_ups.dead)


def receive_all(stack: Stack, settings: Settings) -> str:
    """All bodies and attributes on the queue of the API."""
    client = sqs_client(stack)
    url = client.get_queue_url(QueueName=settings.find_queue(settings.queue).sqs)["QueueUrl"]
    found: list[Any] = []
    while messages := client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    ).get("Messages"):
        found += messages
    return json.dumps(found, default=str)


async def test_an_error_of_the_driver_quotes_only_seals(talk: Conversation, database: Database) -> None:
    await submit(talk, "speak")

    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        await database.fetch("UPDATE messages SET role = 'nobody'", {})

    assert "sealed:1:k1:" in str(caught.value)
    assert CANARY not in str(caught.value) + repr(caught.value)


async def test_a_process_without_the_key_waits_and_quotes_nothing(
    talk: Conversation, keyless: Database, settings: Settings
) -> None:
    turn = await submit(talk, "speak")
    without = settings.model_copy(update={"sealing_keys_file": None})
    async with conversing(without, Handler(lambda *_: pytest.fail("the handler began"))) as other:
        await other.work(turn)
        refused = await other.client.get(f"/v1/turns/{turn}")

    [row] = await keyless.fetch("SELECT status, failures FROM turns", {})
    assert (row["status"], row["failures"]) == ("PENDING", 0)
    [attempt] = await keyless.fetch("SELECT outcome, error FROM turn_attempts", {})
    assert attempt["outcome"] == "snoozed"
    assert attempt["error"].startswith("sealed under key k1, which this process does not have")
    assert refused.status_code == 503
    assert refused.json()["detail"] == "this process can't open what is stored; tell its operator"
