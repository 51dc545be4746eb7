"""Whoever may send to the queue sends what he likes: each message is deleted, with a copy on the DLQ if it can't be read."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import structlog.testing
from hypothesis import strategies as st

from tests.conftest import sqs_client
from tests.support.claims import fail_next
from tests.support.drawn_examples import draw
from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processors import Noting, message_about, processing
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import MalformedMessageError
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import submit
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import (
    DEAD_LETTER_GENERATION,
    DEAD_LETTER_REASON,
    MAX_BODY_CHARACTERS,
    TRACEPARENT,
    decode,
)
from turnstile.worker.session_lock import SessionLock

CANARY = "canary-4711"
"""In every generated text, and in no reason and no log line."""

PROBLEMS = 150

any_text = st.text(st.characters(), max_size=30).map(lambda text: CANARY + text)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
)
counts = st.sampled_from(["", "0", "-1", "1", "2", "1e9", "999999999", "9999999999", "\u0661", "1 ", "0x1", "NaN"])
traces = st.sampled_from(
    [
        "-",
        "----",
        "00-0-0-0",
        f"00-{'f' * 32}-{'f' * 16}-ff",
        f"ff-{'f' * 32}-{'f' * 16}-01",
        f"00-{'0' * 32}-{'0' * 16}-00",
    ]
)
attributes = st.dictionaries(any_text, any_text, max_size=12) | st.fixed_dictionaries(
    {}, optional={TRACEPARENT: traces | any_text, DEAD_LETTER_GENERATION: counts, DEAD_LETTER_REASON: any_text}
)


def bodies(turn_id: UUID) -> st.SearchStrategy[str]:
    """Texts, JSON that is no wake-up, and wake-ups that are spoilt in up to two places or name turns of nobody."""
    good = {"v": 1, "tenant_id": "t", "session_id": "s", "turn_id": str(turn_id)}
    values = anything | st.sampled_from(
        [1.0, True, "1", 2**70, "..", "{t}", "t\n", str(turn_id).upper(), f"urn:uuid:{turn_id}"]
    )
    spoilt = st.dictionaries(st.sampled_from([*good, "later"]), values, max_size=2)
    absent = st.sets(st.sampled_from(list(good)), max_size=1)
    wake_ups = st.tuples(spoilt, absent).map(
        lambda both: {name: value for name, value in (good | both[0]).items() if name not in both[1]}
    )
    strangers = st.uuids().map(lambda other: good | {"session_id": CANARY, "turn_id": str(other)})
    deep = st.sampled_from(["[" * 1000, '{"v":' * 150, "x" * (MAX_BODY_CHARACTERS + 1), ""])
    return any_text | deep | (anything | wake_ups | strangers).map(json.dumps)


def messages(turn_id: UUID) -> st.SearchStrategy[ReceivedMessage]:
    return st.builds(
        ReceivedMessage,
        message_id=st.just("m"),
        body=bodies(turn_id),
        receipt_handle=st.just("handle"),
        receive_count=st.integers(0, 2000),
        attributes=attributes,
        moved_by_sqs=st.booleans(),
    )


def is_readable(body: str) -> bool:
    try:
        decode(body)
    except MalformedMessageError:
        return False
    return True


async def test_each_is_deleted_and_what_can_not_be_read_has_a_reason_that_quotes_nothing(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit(database, [make_submission("turns", "s")], resend_seconds=600.0)
    failed = await fail_next(database, settings, "s", halt=False, compensates=False)
    sqs = Noting()
    sent = [replace(one, message_id=str(number)) for number, one in enumerate(draw(messages(failed), PROBLEMS))]

    with structlog.testing.capture_logs() as lines, processing(settings, database, lock, "w", queues=sqs) as processor:
        for message in sent:
            await processor.process(message)

    assert sorted(one.message_id for one in sqs.deleted) == sorted(one.message_id for one in sent)
    dead = {message.message_id: reason for message, reason in sqs.dead}
    assert {one.message_id for one in sent if not is_readable(one.body)} <= dead.keys()
    assert all(0 < len(reason) < 300 and CANARY not in reason for reason in dead.values())
    reported = [line["reason"] for line in lines if line["event"] == "message.malformed"]
    assert sorted(reported) == sorted(dead.values())


async def test_the_turns_of_others_are_answered_meanwhile(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    honest = make_submission("turns", "honest")
    await submit(database, [honest], resend_seconds=600.0)

    with processing(settings, database, lock, "w", queues=Noting()) as processor:
        for message in [*draw(messages(uuid4()), 10), message_about(honest.turn_id, "honest")]:
            await processor.process(message)

    assert await database.fetch("SELECT session_id, status FROM turns", {}) == [
        {"session_id": "honest", "status": "SUCCEEDED"}
    ]


async def test_attributes_of_every_type_come_through_sqs_to_the_dlq_without_what_is_no_text(
    settings: Settings, queues: MessageQueues, stack: Stack
) -> None:
    typed: dict[str, Any] = {
        "text": {"DataType": "String", "StringValue": "kept"},
        "labelled": {"DataType": "String.label", "StringValue": "kept, too"},
        "number": {"DataType": "Number", "StringValue": "1e400"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        DEAD_LETTER_GENERATION: {"DataType": "Binary", "BinaryValue": b"1"},
        TRACEPARENT: {"DataType": "Binary", "BinaryValue": b"00"},
    }
    address = await queues.find(settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.url, MessageBody="not ours", MessageAttributes=typed)
    [received] = await until(lambda: queues.receive(settings.queue, 1))

    assert (received.trace_id, received.dead_letter_generation) == (None, None)
    await queues.dead_letter_malformed(settings.queue, received, "body: no JSON")

    [dead] = await queues.receive(settings.queue, 1, dead=True)
    assert dead.body == "not ours"
    assert dead.attributes == {
        "text": "kept",
        "labelled": "kept, too",
        "number": "1e400",
        DEAD_LETTER_REASON: "malformed: body: no JSON",
        "turnstile.source_queue": settings.queue,
    }
