"""After the faults: waiting until everything has settled, and gathering what is left behind."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import redis

from tests.proof.chaos import audit
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.evidence import QueuedMessage, RedisKey

OWED = """
SELECT (SELECT count(*) FROM turns WHERE status IN ('PENDING', 'RUNNING') OR send_at IS NOT NULL)
     + (SELECT count(*) FROM webhooks WHERE due_at IS NOT NULL)
     + (SELECT count(*) FROM erasures WHERE finished_at IS NULL)
"""
COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
FRUITLESS_RECEIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Where a run may have left something. No fault strikes this way to it."""

    database_url: str
    redis_url: str
    """The Redis that has the session locks."""
    redis_prefix: str
    sqs: Any
    """A boto3 client."""
    queue_urls: tuple[str, ...]
    dlq_urls: tuple[str, ...]


async def wait_for_rest(remains: Remains, bound_seconds: float) -> float | None:
    """When nothing was owed and the main queue was empty; None if that took longer than the bound."""
    deadline = now() + bound_seconds
    while now() < deadline:
        if await asyncio.to_thread(_is_at_rest, remains):
            return now()
        await pause(0.25)
    return None


def _is_at_rest(remains: Remains) -> bool:
    with psycopg.connect(remains.database_url) as connection:
        if not owes_nothing(connection):
            return False
    return are_empty(remains)


def owes_nothing(connection: "psycopg.Connection[Any]") -> bool:
    return connection.execute(OWED).fetchone() == (0,)


def are_empty(remains: Remains) -> bool:
    """Whether the main queues have no messages: visible, in flight or delayed."""
    answers = (remains.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=COUNTS) for url in remains.queue_urls)
    return not any(int(value) for answer in answers for value in answer["Attributes"].values())


def gather(remains: Remains, journal: Journal) -> None:
    """Everything that is left on the servers. The product's processes have ended by now, and their locks have expired."""
    with redis.Redis.from_url(remains.redis_url, decode_responses=True) as client:
        for key in find_locks(client, remains.redis_prefix):
            journal.write(key)
    for urls, dead in ((remains.queue_urls, False), (remains.dlq_urls, True)):
        for url in urls:
            for message in take_messages(remains.sqs, url, dead=dead):
                journal.write(message)
    audit.collect(remains.database_url, journal.folder)


def find_locks(client: Any, prefix: str) -> Iterator[RedisKey]:
    """All session locks of one Redis, whose client decodes."""
    for key in client.scan_iter(f"{prefix}lock:*", count=1000):
        if (value := client.get(key)) is not None:
            yield RedisKey(key=key, value=str(value), ttl_ms=int(client.pttl(key)))


def take_messages(sqs: Any, url: str, *, dead: bool) -> Iterator[QueuedMessage]:
    """All messages of a queue. Each is deleted: of a FIFO queue, a group's next message comes only then."""
    fruitless = 0
    while fruitless < FRUITLESS_RECEIVES:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        found = messages.get("Messages", [])
        fruitless = 0 if found else fruitless + 1
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            given = message.get("MessageAttributes", {})
            yield QueuedMessage(
                queue=url.rpartition("/")[2],
                dead=dead,
                message_id=message["MessageId"],
                body=message["Body"],
                attributes={name: value["StringValue"] for name, value in given.items() if "StringValue" in value},
            )
