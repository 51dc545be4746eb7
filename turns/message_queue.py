"""The one home of all SQS calls about messages: send, receive, delete, extend, give back, dead-letter.

boto3 blocks, so each call runs on a thread: long polls on one pool, commands on another, or six polls would starve every
delete. Retries are set on purpose (botocore's own default changes between releases, and a retried receive would sleep in
the polling thread): one quick retry for commands, none for polls; the longer back-off belongs to the caller's loop.

A message is only a hint, so every call here may be lost or doubled. What SQS answers to a stale receipt handle differs
(AWS shrugs, some emulators refuse): deleting and extending are best effort, and say so by returning nothing.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import boto3
import structlog
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from turns.envelope import (
    Attributes,
    DeadLetter,
    OutgoingMessage,
    QueueAddress,
    ReceivedMessage,
    string_attributes,
)
from turns.errors import QueueUnavailableError, SettingsError, UnknownQueueError
from turns.message import DEAD_LETTER_REASON, WakeUp
from turns.settings import Settings

BATCH = 10
"""SQS takes and gives ten messages a call."""

COMMAND_THREADS = 8
EXTEND_TIMEOUT_SECONDS = 2.0

log = structlog.get_logger("turnstile.queue")
Answer = TypeVar("Answer")


class MessageQueues:
    """All declared queues. Safe for concurrent use in one event loop; `extend` also from the heartbeat's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses: dict[str, QueueAddress] = {}
        self._polls = ThreadPoolExecutor(settings.pollers, "sqs-poll")
        self._commands = ThreadPoolExecutor(COMMAND_THREADS, "sqs-command")
        # One session: what botocore reads to build a client is read once.
        session = boto3.session.Session()
        poll_seconds = settings.receive_wait_seconds + 10.0
        self._receive_client = _client(session, settings, poll_seconds, settings.pollers, attempts=1)
        self._client = _client(session, settings, 5.0, COMMAND_THREADS + 2, attempts=2)
        # The heartbeat's: it has leases to renew, and an SQS that hangs must not take up their time.
        self._extend_client = _client(session, settings, EXTEND_TIMEOUT_SECONDS, 1, attempts=1)

    def close(self) -> None:
        """Lets go of the threads; a long poll that is under way is left behind."""
        self._polls.shutdown(wait=False, cancel_futures=True)
        self._commands.shutdown(wait=False, cancel_futures=True)

    async def find(self, queue: str) -> QueueAddress:
        """The queue's address, looked up once. Raises UnknownQueueError or QueueUnavailableError."""
        if queue not in self._addresses:
            declared = self._settings.find_queue(queue)
            url, dlq_url = await asyncio.gather(self._find_url(declared.sqs), self._find_url(declared.dlq))
            self._addresses[queue] = QueueAddress(queue, url, dlq_url, declared.visibility_seconds)
        return self._addresses[queue]

    async def _find_url(self, name: str) -> str:
        if "://" in name:
            return name
        answer = await self._command(partial(self._client.get_queue_url, QueueName=name), name)
        return str(answer["QueueUrl"])

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Sends wake-ups; returns those that SQS took. Raises QueueUnavailableError, after which some may be sent."""
        address = await self.find(queue)
        entries = [_entry(address, message.wake_up, message.attributes) for message in messages]
        return [messages[place] for place in await self._send_entries(address.url, entries)]

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Sends dead letters to the queue's DLQ; returns those that SQS took."""
        address = await self.find(queue)
        signed = [_signed(letter, queue) for letter in letters]
        entries = [_entry(address, letter.message.wake_up, letter.attributes) for letter in signed]
        return [letters[place] for place in await self._send_entries(address.dlq_url, entries)]

    async def dead_letter_malformed(self, queue: str, message: ReceivedMessage, reason: str) -> None:
        """Puts a message that can't be understood on the DLQ as it came, with the reason. Delete it only afterwards."""
        address = await self.find(queue)
        # SQS takes ten attributes: its own stay, as many as there is room for.
        own = dict(list(message.attributes.items())[:8])
        ours = {DEAD_LETTER_REASON: f"malformed: {reason}", "turnstile.source_queue": queue}
        attributes = string_attributes(own | ours)
        entry: dict[str, Any] = {"MessageBody": message.body, "MessageAttributes": attributes}
        if address.fifo:
            entry |= {"MessageGroupId": "malformed", "MessageDeduplicationId": message.message_id}
        if not await self._send_entries(address.dlq_url, [entry]):
            raise QueueUnavailableError(f"the DLQ of {queue!r} did not take a malformed message")

    async def _send_entries(self, url: str, entries: Sequence[dict[str, Any]]) -> list[int]:
        sent: list[int] = []
        for start in range(0, len(entries), BATCH):
            batch = [{"Id": str(start + n), **entry} for n, entry in enumerate(entries[start : start + BATCH])]
            try:
                answer = await self._command(partial(self._client.send_message_batch, QueueUrl=url, Entries=batch), url)
            except QueueUnavailableError:
                if not sent:
                    raise
                # What went out before stays sent; the caller sees by what is missing that the rest did not.
                break
            sent += [int(taken["Id"]) for taken in answer.get("Successful", [])]
            for refused in answer.get("Failed", []):
                log.warning("queue.send_refused", queue_url=url, code=refused["Code"], ours=refused["SenderFault"])
        return sent

    async def receive(self, queue: str, most: int, *, dead: bool = False) -> list[ReceivedMessage]:
        """A long poll for up to `most` (1 to 10) messages of the queue, or (`dead`, without waiting) of its DLQ.

        A caller that is cancelled leaves the poll running: what it brings stays invisible until its time is over.
        """
        address = await self.find(queue)
        call = partial(
            self._receive_client.receive_message,
            QueueUrl=address.dlq_url if dead else address.url,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=0 if dead else self._settings.receive_wait_seconds,
            VisibilityTimeout=int(address.visibility_seconds),
            MessageSystemAttributeNames=["ApproximateReceiveCount", "DeadLetterQueueSourceArn"],
            MessageAttributeNames=["All"],
        )
        answer = await self._run(self._polls, call, queue)
        return [_received(message) for message in answer.get("Messages", [])]

    async def delete(self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool = False) -> None:
        """Deletes; best effort. What was not deleted is delivered again and finds nothing to do."""
        address = await self.find(queue)
        url = address.dlq_url if dead else address.url
        for start in range(0, len(messages), BATCH):
            batch = _handles(messages[start : start + BATCH])
            await self._command(partial(self._client.delete_message_batch, QueueUrl=url, Entries=batch), queue)

    async def give_back(
        self, queue: str, messages: Sequence[ReceivedMessage], *, dead: bool = False, after_seconds: float = 0
    ) -> None:
        """Makes messages visible at once or soon, for somebody else to receive; best effort."""
        address = await self.find(queue)
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            change = partial(self._change_visibility, self._client, address, batch, after_seconds, dead=dead)
            await self._command(change, queue)

    def extend(self, address: QueueAddress, messages: Sequence[ReceivedMessage]) -> None:
        """Keeps messages invisible for another visibility timeout; best effort. Blocks: for the heartbeat's thread."""
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            try:
                self._change_visibility(self._extend_client, address, batch, address.visibility_seconds)
            except BotoCoreError as error:
                log.info("queue.extend_failed", queue=address.name, error=_reason(error))
                # Away: what is left of the beat belongs to the next one's leases.
                return
            except ClientError as error:
                log.info("queue.extend_failed", queue=address.name, error=_reason(error))

    def _change_visibility(
        self,
        client: Any,
        address: QueueAddress,
        messages: Sequence[ReceivedMessage],
        seconds: float,
        *,
        dead: bool = False,
    ) -> Any:
        now = time.monotonic()
        entries = [
            {**handle, "VisibilityTimeout": message.visibility_left(seconds, now)}
            for handle, message in zip(_handles(messages), messages, strict=True)
        ]
        url = address.dlq_url if dead else address.url
        return client.change_message_visibility_batch(QueueUrl=url, Entries=entries)

    async def count(self, queue: str, *, dead: bool = False) -> int:
        """About how many messages there are: visible, in flight and delayed."""
        names = [f"ApproximateNumberOfMessages{name}" for name in ("", "NotVisible", "Delayed")]
        return sum(map(int, (await self.attributes(queue, names, dead=dead)).values()))

    async def attributes(self, queue: str, names: Sequence[str] = ("All",), *, dead: bool = False) -> dict[str, str]:
        """The queue's attributes, or its DLQ's, by SQS's own names."""
        address = await self.find(queue)
        url = address.dlq_url if dead else address.url
        call = partial(self._client.get_queue_attributes, QueueUrl=url, AttributeNames=list(names))
        return dict((await self._command(call, queue)).get("Attributes", {}))

    async def _command(self, call: Callable[[], Answer], queue: str) -> Answer:
        return await self._run(self._commands, call, queue)

    async def _run(self, threads: ThreadPoolExecutor, call: Callable[[], Answer], queue: str) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, call)
        except ClientError as error:
            if error.response["Error"]["Code"].endswith(("NonExistentQueue", "QueueDoesNotExist")):
                raise UnknownQueueError(queue) from error
            raise QueueUnavailableError(_reason(error)) from error
        except BotoCoreError as error:
            raise QueueUnavailableError(_reason(error)) from error


def _client(
    session: boto3.session.Session, settings: Settings, read_timeout: float, connections: int, *, attempts: int
) -> Any:
    config = Config(
        connect_timeout=3,
        read_timeout=read_timeout,
        max_pool_connections=connections,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        tcp_keepalive=True,
    )
    try:
        return session.client(
            "sqs", region_name=settings.aws_region, endpoint_url=settings.sqs_endpoint_url, config=config
        )
    except NoRegionError:
        raise SettingsError("AWS_REGION: is not set, and the AWS configuration names no region") from None


def _entry(address: QueueAddress, wake_up: WakeUp, attributes: Attributes) -> dict[str, Any]:
    entry: dict[str, Any] = {"MessageBody": wake_up.encode(), "MessageAttributes": attributes}
    if not address.fifo:
        # SQS fair queues: one tenant's backlog does not hold up the others'.
        return entry | {"MessageGroupId": wake_up.tenant_id}
    # A fresh deduplication id for each send: the table tells duplicates, and SQS would swallow a repeated wake-up for
    # five minutes after the first was deleted.
    return entry | {"MessageGroupId": _group(wake_up), "MessageDeduplicationId": uuid4().hex}


def _group(wake_up: WakeUp) -> str:
    # Hashed: tenant and session together may be longer than the 128 characters of a group id.
    return hashlib.sha256(f"{wake_up.tenant_id}/{wake_up.session_id}".encode()).hexdigest()


def _signed(letter: DeadLetter, queue: str) -> DeadLetter:
    return DeadLetter(letter.message, letter.error_class, letter.attempts, letter.fence, letter.generation, queue)


def _received(message: dict[str, Any]) -> ReceivedMessage:
    system = message.get("Attributes", {})
    attributes = message.get("MessageAttributes", {})
    return ReceivedMessage(
        message_id=message["MessageId"],
        body=message["Body"],
        receipt_handle=message["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        attributes={name: value["StringValue"] for name, value in attributes.items() if "StringValue" in value},
        moved_by_sqs="DeadLetterQueueSourceArn" in system,
    )


def _handles(messages: Sequence[ReceivedMessage]) -> list[dict[str, str]]:
    return [{"Id": str(place), "ReceiptHandle": message.receipt_handle} for place, message in enumerate(messages)]


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
