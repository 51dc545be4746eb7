# ruff: noqa: N803 - the names of the parameters are boto3's
"""A stand-in for SQS under the real `message_queue.MessageQueues`: boto3's calls, answered from `queue_model`.

So the real batching, partial failures, look-ups and error mapping run on top of it. A long poll needs a clock that can
call back (`call_at`); without one it is answered at once with what is there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from tests.support.fakes.carry import Carry, at_once
from tests.support.fakes.queue_model import Anomalies, QueueModel, StaleHandle, Stored
from turnstile.backends.sqs.sqs_client import COMMAND_SECONDS, POLL, POLL_SLACK_SECONDS, CallRefusedError, SqsClient
from turnstile.errors import QueueUnavailableError
from turnstile.turn.wire_format import DEAD_LETTER_REASON

SCHEME = "fake://"


@dataclass(frozen=True, slots=True)
class Deed:
    """What SQS did with one message in one call."""

    action: str
    """send, receive, delete, visibility"""
    queue: QueueModel
    message: Stored | None
    effective: bool

    @property
    def reason(self) -> str | None:
        attribute = self.message.attributes.get(DEAD_LETTER_REASON) if self.message is not None else None
        return attribute["StringValue"] if attribute else None


@dataclass(slots=True)
class LongPoll:
    """A receive that waits; `answer` is set by the caller."""

    most: int
    visibility_seconds: float
    ends_at: float
    answer: Callable[[Any], None] | None = None
    over: bool = False


@dataclass(slots=True, eq=False)
class FakeSqs:
    """The server. Its methods are those of a boto3 client that the product uses."""

    now: Callable[[], float]
    chance: Random = field(default_factory=lambda: Random(0))
    call_at: Callable[[float, Callable[[], None]], object] | None = None
    record: Callable[[Deed], None] | None = None
    stale: StaleHandle = StaleHandle.SHRUG
    anomalies: Anomalies = field(default_factory=Anomalies)
    queues: dict[str, QueueModel] = field(default_factory=dict)
    _polls: dict[str, list[LongPoll]] = field(default_factory=dict)
    _looks_at: dict[str, float] = field(default_factory=dict)
    """When the next look at a queue is due on behalf of those who wait."""

    # --- queues

    def create_queue(self, QueueName: str, Attributes: dict[str, str] | None = None) -> dict[str, str]:
        url = SCHEME + QueueName
        if url not in self.queues:
            fifo = (Attributes or {}).get("FifoQueue") == "true"
            self.queues[url] = QueueModel(QueueName, fifo, self.now, self.chance, self.anomalies, self.stale)
            self._polls[url] = []
        return {"QueueUrl": url}

    def delete_queue(self, QueueUrl: str) -> None:
        del self.queues[QueueUrl]

    def get_queue_url(self, QueueName: str) -> dict[str, str]:
        self._queue(SCHEME + QueueName)
        return {"QueueUrl": SCHEME + QueueName}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: Sequence[str]) -> dict[str, dict[str, str]]:
        queue = self._queue(QueueUrl)
        hidden = sum(stored.visible_at > self.now() for stored in queue.messages)
        values = {
            "ApproximateNumberOfMessages": str(len(queue.messages) - hidden),
            "ApproximateNumberOfMessagesNotVisible": str(hidden),
            "ApproximateNumberOfMessagesDelayed": "0",
        }
        return {"Attributes": {name: values[name] for name in AttributeNames}}

    # --- messages

    def send_message(self, QueueUrl: str, MessageBody: str, **options: Any) -> dict[str, str]:
        queue = self._queue(QueueUrl)
        stored = queue.send(
            MessageBody,
            options.get("MessageAttributes", {}),
            options.get("MessageGroupId"),
            options.get("MessageDeduplicationId"),
        )
        self._note("send", queue, stored, effective=True)
        self._serve(QueueUrl)
        return {"MessageId": stored.id}

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        self._admit(QueueUrl)
        taken, refused = [], []
        for entry in Entries:
            if self._refuses():
                refused.append(_failed(entry, "InternalError"))
                continue
            options = {name: value for name, value in entry.items() if name != "Id"}
            taken.append({"Id": entry["Id"], **self.send_message(QueueUrl, **options)})
        return {"Successful": taken, "Failed": refused}

    def receive_message(
        self, QueueUrl: str, MaxNumberOfMessages: int, WaitTimeSeconds: float, VisibilityTimeout: float, **_: Any
    ) -> Any:
        """What is visible; with a clock that can call back, waits for it."""
        self._admit(QueueUrl)
        queue = self._queue(QueueUrl)
        poll = LongPoll(MaxNumberOfMessages, VisibilityTimeout, self.now() + WaitTimeSeconds)
        answer = self._receive(queue, poll)
        if answer["Messages"] or not WaitTimeSeconds or self.call_at is None:
            return answer
        self._polls[QueueUrl].append(poll)
        self.call_at(poll.ends_at, lambda: self._end(queue, poll))
        self._look_again(QueueUrl)
        return poll

    def delete_message_batch(self, QueueUrl: str, Entries: Sequence[dict[str, str]]) -> dict[str, Any]:
        queue = self._admit(QueueUrl)
        done, failed = [], []
        for entry in Entries:
            stored, effective, fine = queue.delete(entry["ReceiptHandle"])
            self._note("delete", queue, stored, effective=effective)
            if fine:
                done.append({"Id": entry["Id"]})
            else:
                failed.append(_failed(entry, "ReceiptHandleIsInvalid"))
        self._serve(QueueUrl)
        return {"Successful": done, "Failed": failed}

    def change_message_visibility_batch(self, QueueUrl: str, Entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Hides or shows up to ten; each may fail alone."""
        queue = self._admit(QueueUrl)
        failed = []
        for entry in Entries:
            stored, effective, fine = queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
            self._note("visibility", queue, stored, effective=effective)
            if not fine:
                failed.append(_failed(entry, "InvalidParameterValue"))
        self._serve(QueueUrl)
        return {"Successful": [], "Failed": failed}

    # ---

    def _queue(self, url: str) -> QueueModel:
        queue = self.queues.get(url)
        if queue is None:
            raise ClientError({"Error": {"Code": "AWS.SimpleQueueService.NonExistentQueue", "Message": url}}, "any")
        return queue

    def _admit(self, url: str) -> QueueModel:
        if self.anomalies.throttles and self.chance.random() < self.anomalies.throttles:
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slow down"}}, "any")
        return self._queue(url)

    def _refuses(self) -> bool:
        return self.anomalies.refuses > 0.0 and self.chance.random() < self.anomalies.refuses

    def _receive(self, queue: QueueModel, poll: LongPoll) -> dict[str, Any]:
        received = queue.receive(poll.most, poll.visibility_seconds)
        for stored, _ in received:
            self._note("receive", queue, stored, effective=True)
        return {"Messages": [queue.describe(stored, handle) for stored, handle in received]}

    def _serve(self, url: str) -> None:
        polls = self._polls[url]
        while polls:
            answer = self._receive(self.queues[url], polls[0])
            if not answer["Messages"]:
                self._look_again(url)
                return
            self._answer(polls.pop(0), answer)

    def _look_again(self, url: str) -> None:
        visible_at = self.queues[url].next_visible_at()
        if visible_at is None or self.call_at is None:
            return
        due = self._looks_at.get(url)
        if due is None or due <= self.now() or visible_at < due:
            self._looks_at[url] = visible_at
            self.call_at(visible_at, lambda: self._serve(url))

    def _end(self, queue: QueueModel, poll: LongPoll) -> None:
        if not poll.over:
            self._polls[SCHEME + queue.name].remove(poll)
            self._answer(poll, {"Messages": []})

    def _answer(self, poll: LongPoll, answer: dict[str, Any]) -> None:
        poll.over = True
        if poll.answer is not None:
            poll.answer(answer)

    def _note(self, action: str, queue: QueueModel, stored: Stored | None, *, effective: bool) -> None:
        if self.record is not None:
            self.record(Deed(action, queue, stored, effective))


def _failed(entry: dict[str, Any], code: str) -> dict[str, Any]:
    return {"Id": entry["Id"], "Code": code, "SenderFault": False}


class FakeSqsClient(SqsClient):
    """The product's client, of that server.

    A call that raises QueueUnavailableError is tried again, as the real one does.
    """

    def __init__(self, server: FakeSqs, carry: Carry = at_once) -> None:
        self._server = server
        self._carry = carry

    @property
    def region(self) -> str:
        return "us-east-1"

    def for_another_loop(self) -> "FakeSqsClient":
        return self

    async def call(
        self, operation: str, parameters: dict[str, Any], *, seconds: float = COMMAND_SECONDS, tries: int = 2
    ) -> Any:
        if operation == POLL:
            seconds, tries = parameters["WaitTimeSeconds"] + POLL_SLACK_SECONDS, 1
        call = partial(getattr(self._server, xform_name(operation)), **parameters)
        while True:
            tries -= 1
            try:
                return await self._carry(call, seconds)
            except ClientError as error:
                raise CallRefusedError(error.response["Error"]["Code"], str(error)) from error
            except QueueUnavailableError:
                if not tries:
                    raise

    async def check_credentials(self) -> None:
        """It asks for none."""

    async def close(self) -> None:
        """Nothing is open."""
