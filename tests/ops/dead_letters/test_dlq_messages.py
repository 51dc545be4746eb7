"""The kinds of messages on a dead-letter queue, and the pass over the queue."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from turnstile.errors import QueueUnavailableError
from turnstile.ops.dead_letters.dlq_messages import (
    FRUITLESS_RECEIVES,
    DeadLetterPass,
    LetterKind,
    classify,
    read_wake_up,
)
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import DEAD_LETTER_GENERATION, WakeUp

TURN = UUID("00000000-0000-7000-8000-000000000001")


def make_message(
    body: str | None = None, generation: int | None = None, *, moved: bool = False, message_id: str = "m"
) -> ReceivedMessage:
    return ReceivedMessage(
        message_id=message_id,
        body=WakeUp("t", "s", TURN).encode() if body is None else body,
        receipt_handle=f"handle of {message_id}",
        receive_count=1,
        attributes={} if generation is None else {DEAD_LETTER_GENERATION: str(generation)},
        moved_by_sqs=moved,
    )


@pytest.mark.parametrize(
    ("message", "row", "kind"),
    [
        (make_message(generation=1), (1, "FAILED"), LetterKind.STILL_DEAD),
        (make_message(generation=1), (2, "FAILED"), LetterKind.OUTLIVED),
        (make_message(generation=1), (2, "PENDING"), LetterKind.OUTLIVED),
        (make_message(generation=3), (2, "PENDING"), LetterKind.STILL_DEAD),
        (make_message(moved=True), (1, "FAILED"), LetterKind.STILL_DEAD),
        (make_message(moved=True), (1, "PENDING"), LetterKind.MOVED_BY_SQS),
        (make_message(), None, LetterKind.UNKNOWN_TURN),
        (make_message(body="not ours"), (1, "PENDING"), LetterKind.MALFORMED),
    ],
)
def test_a_dead_letter_is_classified_by_the_row_of_its_turn(
    message: ReceivedMessage, row: tuple[int, str] | None, kind: LetterKind
) -> None:
    assert classify(message, read_wake_up(message), row) is kind


class FakeQueues:
    """A DLQ by script: the messages of each receive."""

    def __init__(self, receives: Any, count: int) -> None:
        self._receives = iter(receives)
        self._count = count
        self.given_back: list[str] = []
        self.handles: list[str] = []
        self.away = False
        self.deleted: list[str] = []
        self.refuses: set[str] = set()
        self.asked = 0

    async def count(self, queue: str, *, dead: bool) -> int:
        return self._count

    async def receive(self, queue: str, most: int, *, dead: bool) -> list[ReceivedMessage]:
        self.asked += 1
        received = [make_message(message_id=name) for name in next(self._receives, [])][:most]
        return [replace(message, receipt_handle=f"{message.message_id}, receive {self.asked}") for message in received]

    async def delete(self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool) -> list[ReceivedMessage]:
        gone = [message for message in messages if message.message_id not in self.refuses]
        self.deleted += [message.message_id for message in gone]
        return gone

    async def give_back(self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool) -> None:
        if self.away:
            raise QueueUnavailableError("gone")
        self.given_back += [message.message_id for message in messages]
        self.handles += [message.receipt_handle for message in messages]


async def look_through(queues: FakeQueues, most: int | None = None, delete: Sequence[str] = ()) -> list[str]:
    seen = []
    async with DeadLetterPass(queues, "turns") as dead:  # type: ignore[arg-type]
        async for messages in dead.batches(most):
            seen += [message.message_id for message in messages]
            await dead.delete([message for message in messages if message.message_id in delete])
    return seen


async def test_each_message_is_seen_once_and_given_back() -> None:
    queues = FakeQueues([["a", "b"], ["b", "c"], ["a"]], 3)

    assert await look_through(queues) == ["a", "b", "c"]
    assert sorted(queues.given_back) == ["a", "b", "c"]


async def test_a_message_is_given_back_by_its_latest_handle_because_sqs_refuses_an_earlier_one() -> None:
    queues = FakeQueues([["a"], ["a"]], 1)

    await look_through(queues)

    assert queues.handles == ["a, receive 2"]


async def test_a_pass_whose_messages_can_not_be_given_back_has_still_seen_them() -> None:
    queues = FakeQueues([["a"]], 1)
    queues.away = True

    assert await look_through(queues) == ["a"]


async def test_one_empty_response_of_a_short_poll_is_not_the_end() -> None:
    assert await look_through(FakeQueues([["a"], [], [], ["b"]], 2)) == ["a", "b"]


async def test_a_message_that_is_delivered_again_after_its_deletion_is_deleted_again() -> None:
    queues = FakeQueues([["a"], ["a"]], 1)

    assert await look_through(queues, delete=["a"]) == ["a"]
    assert (queues.deleted, queues.given_back) == (["a", "a"], [])


async def test_a_message_that_was_not_deleted_is_given_back() -> None:
    queues = FakeQueues([["a", "b"], ["a"]], 2)
    queues.refuses = {"a"}

    assert await look_through(queues, delete=["a", "b"]) == ["a", "b"]
    assert (queues.deleted, queues.given_back) == (["b"], ["a"])


async def test_a_message_that_can_not_be_deleted_again_is_given_back() -> None:
    queues = FakeQueues([["a"], ["a"]], 1)

    async with DeadLetterPass(queues, "turns") as dead:  # type: ignore[arg-type]
        async for messages in dead.batches():
            await dead.delete(messages)
            queues.refuses = {"a"}

    assert (queues.deleted, queues.given_back) == (["a"], ["a"])


async def test_a_queue_that_never_gets_empty_ends_the_pass_too() -> None:
    for delete in (False, True):
        endless = ([f"m{number}"] for number in range(1000))
        doomed = [f"m{number}" for number in range(1000)] if delete else []

        assert 10 < len(await look_through(FakeQueues(endless, 10), delete=doomed)) < 200


async def test_a_queue_that_repeats_its_messages_ends_the_pass_too() -> None:
    queues = FakeQueues(itertools.repeat(["a", "b"]), 2)

    await look_through(queues)

    assert queues.asked == 1 + FRUITLESS_RECEIVES


async def test_a_pass_receives_at_most_as_many_messages_as_asked_for() -> None:
    queues = FakeQueues([list("abcdefghij"), list("klmnopqrst")], 20)

    assert len(await look_through(queues, most=12)) == 12
