"""All SQS message operations: send, receive, delete, extend, give back, dead-letter.

`backends.sqs.sqs_client` makes the calls and has their timeouts and retries. A message is only a hint, so every call here may be
lost or repeated. The response to a stale receipt handle differs (AWS accepts it, some emulators refuse it). Delete and
extend are therefore best effort: a message reported as deleted may be delivered once more.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import uuid4

from turnstile.backends.sqs.endpoint import find_region_of
from turnstile.backends.sqs.sqs_client import POLL, CallRefusedError, Parameters, Response, SqsClient
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.telemetry.own_log import log
from turnstile.telemetry.tracing import Traces
from turnstile.turn.envelope import (
    Attributes,
    DeadLetter,
    OutgoingMessage,
    QueueAddress,
    QueueDepth,
    ReceivedMessage,
    string_attributes,
)
from turnstile.turn.identifiers import for_xray
from turnstile.turn.wire_format import DEAD_LETTER_REASON, WakeUp

BATCH = 10
"""Most messages that SQS allows in one call."""

SEND = "SendMessageBatch"
CHANGE_VISIBILITY = "ChangeMessageVisibilityBatch"
EXTEND_SECONDS = 2.0
"""Timeout of the heartbeat's ChangeMessageVisibilityBatch. Short, because the next heartbeat retries."""


class MessageQueues:
    """All declared queues, for one event loop."""

    def __init__(self, settings: Settings, client: SqsClient | None = None, traces: Traces = None) -> None:
        self._settings = settings
        self._traces = traces
        self._addresses: dict[str, QueueAddress] = {}
        self._client = client or SqsClient.open(settings.aws_region, settings.sqs_endpoint_url)
        self._unanswered: dict[str, list[tuple[str, float]]] = {}
        """The attempt ids, by queue, of polls whose response was lost, each with its start time (monotonic seconds)."""

    def for_another_loop(self) -> "MessageQueues":
        """The same queues with separate connections, for another event loop."""
        return MessageQueues(self._settings, self._client.for_another_loop(), self._traces)

    async def close(self) -> None:
        """Closes the connections; a long poll in progress is broken off."""
        await self._client.close()

    async def forget_connections(self) -> None:
        """Makes the next calls use new connections. For use after a pause that may have broken the old ones."""
        await self._client.forget_connections()

    async def find(self, queue: str) -> QueueAddress:
        """The queue's address, cached after the first lookup. Raises UnknownQueueError or QueueUnavailableError."""
        if queue not in self._addresses:
            declared = self._settings.find_queue(queue)
            url, dlq_url = await asyncio.gather(self._find_url(declared.sqs), self._find_url(declared.dlq))
            self._addresses[queue] = QueueAddress(queue, url, dlq_url, declared.visibility_seconds)
        return self._addresses[queue]

    async def _find_url(self, name: str) -> str:
        if "://" in name:
            return name
        answer = await self._call(name, "GetQueueUrl", QueueName=name)
        return str(answer["QueueUrl"])

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Sends wake-ups; returns those that SQS accepted. After QueueUnavailableError some may have been sent."""
        address = await self.find(queue)
        began_at = time.time_ns()
        xray = self._settings.xray
        entries = [
            _entry(address, message.wake_up, message.attributes) | (_trace_header(message.traceparent) if xray else {})
            for message in messages
        ]
        taken = await self._in_batches(SEND, queue, address.url, entries)
        if self._traces is not None:
            self._traces.sent(queue, [(messages[place], sqs_id) for place, sqs_id in taken.items()], began_at)
        return [messages[place] for place in taken]

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Sends dead letters to the queue's DLQ; returns those that SQS accepted."""
        address = await self.find(queue)
        signed = [replace(letter, source_queue=queue) for letter in letters]
        entries = [_entry(address, letter.message.wake_up, letter.attributes) for letter in signed]
        return [letters[place] for place in await self._in_batches(SEND, queue, address.dlq_url, entries)]

    async def dead_letter_malformed(self, queue: str, message: ReceivedMessage, reason: str) -> None:
        """Copies a malformed message to the DLQ, with its attributes and the reason if they fit together with its body.

        Delete the original only after this returns.
        """
        address = await self.find(queue)
        # SQS allows ten attributes: up to eight of the message's own stay.
        own = dict(list(message.attributes.items())[:8])
        ours = {DEAD_LETTER_REASON: f"malformed: {reason}", "turnstile.source_queue": queue}
        entry: dict[str, Any] = {"MessageBody": message.body}
        if address.fifo:
            entry |= {"MessageGroupId": "malformed", "MessageDeduplicationId": message.message_id}
        # Attributes count into SQS's size limit: a body of the largest size has room for none. After any other refusal the
        # message stays on its queue. A copy without attributes would lose the reason, and a FIFO queue drops a later copy with
        # the same id.
        for attributes in (string_attributes(own | ours), {}):
            copy = {"Id": "0", **entry, "MessageAttributes": attributes}
            try:
                answer = await self._call(queue, SEND, QueueUrl=address.dlq_url, Entries=[copy])
            except CallRefusedError as error:
                if error.passing or not attributes:
                    raise
                continue
            if answer.get("Successful"):
                return
            if not _report_refused(address.dlq_url, answer):
                break
        raise QueueUnavailableError(
            f"the DLQ of {queue!r} did not take a malformed message: it stays on its queue, and is tried again"
        )

    async def _in_batches(
        self, operation: str, queue: str, url: str, entries: Sequence[dict[str, Any]]
    ) -> dict[int, str]:
        """The places of the entries that SQS took, each with the message id that SQS returned, if it did."""
        done: dict[int, str] = {}
        for start in range(0, len(entries), BATCH):
            batch = [{"Id": str(start + n), **entry} for n, entry in enumerate(entries[start : start + BATCH])]
            try:
                answer = await self._call(queue, operation, QueueUrl=url, Entries=batch)
            except QueueUnavailableError:
                if not done:
                    raise
                # Earlier batches are done. The caller finds the other messages by their absence from the result.
                break
            done |= {int(taken["Id"]): taken.get("MessageId", "") for taken in answer.get("Successful") or ()}
            if operation == SEND:
                _report_refused(url, answer)
        return done

    async def check_credentials(self) -> None:
        """Like `SqsClient.check_credentials`."""
        await self._client.check_credentials()

    async def receive(self, queue: str, most: int, *, dead: bool = False, wait: bool = True) -> list[ReceivedMessage]:
        """Receives up to `most` (1 to 10) messages by a long poll; without `wait`, only those that are available now.

        `dead` receives from the queue's DLQ, never with a wait.

        If the caller is cancelled, messages that SQS already delivered stay invisible until their visibility timeout.
        """
        address = await self.find(queue)
        parameters: Parameters = {
            "QueueUrl": address.dlq_url if dead else address.url,
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": self._settings.receive_wait_seconds if wait and not dead else 0,
            "VisibilityTimeout": int(address.visibility_seconds),
            "MessageSystemAttributeNames": ["ApproximateReceiveCount", "DeadLetterQueueSourceArn"],
            "MessageAttributeNames": ["All"],
        }
        if address.fifo and not dead:
            answer = await self._poll_again(address, parameters)
        else:
            answer = await self._call(queue, POLL, **parameters)
        return [_received(message) for message in answer.get("Messages") or ()]

    async def _poll_again(self, address: QueueAddress, parameters: Parameters) -> Response:
        # The messages of a lost response block their groups for a visibility timeout. A poll with the same id gets them again.
        lost = self._unanswered.setdefault(address.name, [])
        attempt, since = lost.pop() if lost else (uuid4().hex, time.monotonic())
        if time.monotonic() - since >= address.visibility_seconds:
            attempt, since = uuid4().hex, time.monotonic()
        try:
            return await self._call(address.name, POLL, ReceiveRequestAttemptId=attempt, **parameters)
        except CallRefusedError:
            raise
        except (QueueUnavailableError, asyncio.CancelledError):
            lost.append((attempt, since))
            raise

    async def delete(
        self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool = False
    ) -> list[ReceivedMessage]:
        """Deletes messages; returns those that SQS confirms. Raises QueueUnavailableError if SQS fails before the first.

        SQS delivers the others again. A repeated wake-up finds nothing to do, so a consumer may ignore the result.
        """
        address = await self.find(queue)
        url = address.dlq_url if dead else address.url
        entries = [{"ReceiptHandle": message.receipt_handle} for message in messages]
        return [messages[place] for place in await self._in_batches("DeleteMessageBatch", queue, url, entries)]

    async def give_back(
        self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool = False, after_seconds: float = 0
    ) -> None:
        """Makes messages visible to other consumers, at once or `after_seconds`; best effort."""
        address = await self.find(queue)
        url = address.dlq_url if dead else address.url
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            changes = _visibility_changes(batch, after_seconds)
            await self._call(queue, CHANGE_VISIBILITY, QueueUrl=url, Entries=changes)

    async def extend(self, address: QueueAddress, messages: Iterable[ReceivedMessage]) -> None:
        """Keeps messages invisible for another visibility timeout; best effort.

        Reads ten at a time from `messages`: a lazy iterable can leave out messages that ended in the meantime.
        """
        left = iter(messages)
        while batch := list(islice(left, BATCH)):
            changes = _visibility_changes(batch, address.visibility_seconds)
            try:
                parameters = {"QueueUrl": address.url, "Entries": changes}
                await self._client.call(CHANGE_VISIBILITY, parameters, seconds=EXTEND_SECONDS, tries=1)
            except CallRefusedError as error:
                log.info("queue.extend_failed", queue=address.name, error=str(error))
            except QueueUnavailableError as error:
                log.info("queue.extend_failed", queue=address.name, error=str(error))
                # SQS is down: each further batch would run into the same timeout.
                return

    async def count(self, queue: str, *, dead: bool = False) -> int:
        """Approximate number of messages: visible, in flight and delayed."""
        return (await self.measure(queue, dead=dead)).messages

    async def measure(self, queue: str, *, dead: bool = False) -> QueueDepth:
        """The depth of the queue, or of its DLQ."""
        names = [f"ApproximateNumberOfMessages{name}" for name in ("", "NotVisible", "Delayed")]
        found = await self.attributes(queue, names, dead=dead)
        visible, in_flight, delayed = (int(found.get(name, 0)) for name in names)
        return QueueDepth(visible=visible, in_flight=in_flight, delayed=delayed)

    async def attributes(self, queue: str, names: Sequence[str] = ("All",), *, dead: bool = False) -> dict[str, str]:
        """The attributes of the queue, or of its DLQ, under SQS's names."""
        address = await self.find(queue)
        url = address.dlq_url if dead else address.url
        answer = await self._call(queue, "GetQueueAttributes", QueueUrl=url, AttributeNames=list(names))
        return dict(answer.get("Attributes") or {})

    async def _call(self, queue: str, operation: str, **parameters: Any) -> Response:
        try:
            return await self._client.call(operation, parameters)
        except CallRefusedError as error:
            if error.code.endswith(("NonExistentQueue", "QueueDoesNotExist", "InvalidAddress")):
                region = find_region_of(parameters.get("QueueUrl", ""))
                elsewhere = f"its URL is of {region}, and AWS_REGION is {self._client.region}"
                foreign = region is not None and region != self._client.region
                raise UnknownQueueError(queue, reason=elsewhere if foreign else None) from error
            raise


def _report_refused(url: str, answer: Response) -> bool:
    """Logs the messages that SQS refused. True: it refused one for its content, so it would refuse the same message again."""
    ours = False
    for refused in answer.get("Failed") or ():
        log.warning("queue.send_refused", queue_url=url, code=refused["Code"], ours=refused["SenderFault"])
        ours = ours or bool(refused["SenderFault"])
    return ours


def _entry(address: QueueAddress, wake_up: WakeUp, attributes: Attributes) -> dict[str, Any]:
    entry: dict[str, Any] = {"MessageBody": wake_up.encode(), "MessageAttributes": attributes}
    if not address.fifo:
        # SQS fair queues: the backlog of one tenant does not delay the others.
        return entry | {"MessageGroupId": wake_up.tenant_id}
    # A new deduplication id for each send: the table detects duplicates. With a stable id SQS would drop a repeated
    # wake-up for five minutes, even after the first was deleted.
    return entry | {"MessageGroupId": _group(wake_up), "MessageDeduplicationId": uuid4().hex}


def _trace_header(traceparent: str) -> dict[str, Any]:
    if (header := for_xray(traceparent)) is None:
        return {}
    return {"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": header}}}


def _group(wake_up: WakeUp) -> str:
    # Hashed, because tenant and session together may exceed the 128 characters of a group id.
    return hashlib.sha256(f"{wake_up.tenant_id}/{wake_up.session_id}".encode()).hexdigest()


def _received(message: dict[str, Any]) -> ReceivedMessage:
    system = message.get("Attributes") or {}
    attributes = message.get("MessageAttributes") or {}
    return ReceivedMessage(
        message_id=message["MessageId"],
        body=message["Body"],
        receipt_handle=message["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        attributes={name: value["StringValue"] for name, value in attributes.items() if "StringValue" in value},
        moved_by_sqs="DeadLetterQueueSourceArn" in system,
    )


def _visibility_changes(messages: Sequence[ReceivedMessage], seconds: float) -> list[Parameters]:
    now = time.monotonic()
    return [
        {
            "Id": str(place),
            "ReceiptHandle": message.receipt_handle,
            "VisibilityTimeout": message.visibility_left(seconds, now),
        }
        for place, message in enumerate(messages)
    ]
