"""After the faults: waiting until everything has settled, and gathering what is left behind."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import redis

from tests.proof.chaos import audit
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.scaled_settings import LEASE_SECONDS
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.evidence import QueuedMessage, RedisKey

OWED = """
SELECT (SELECT count(*) FROM turns WHERE status IN ('PENDING', 'RUNNING') OR send_at IS NOT NULL)
     + (SELECT count(*) FROM webhooks WHERE due_at IS NOT NULL)
"""
COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
FRUITLESS_RECEIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Where a run may have left something. No fault strikes this way to it."""

    database_url: str
    redis_url: str
    """Of the Redis that has the session locks."""
    redis_prefix: str
    sqs: Any
    """A boto3 client."""
    queue_url: str
    dlq_url: str


async def wait_for_rest(remains: Remains, bound_seconds: float) -> float | None:
    """When nothing was owed any more and the main queue was empty; None if that took longer than the bound."""
    deadline = now() + bound_seconds
    while now() < deadline:
        if await asyncio.to_thread(_is_at_rest, remains):
            return now()
        await pause(0.25)
    return None


def _is_at_rest(remains: Remains) -> bool:
    with psycopg.connect(remains.database_url) as connection:
        row = connection.execute(OWED).fetchone()
    if row is None or row[0]:
        return False
    answer = remains.sqs.get_queue_attributes(QueueUrl=remains.queue_url, AttributeNames=COUNTS)
    return not any(int(value) for value in answer["Attributes"].values())


async def gather(remains: Remains, journal: Journal, after_seconds: float = LEASE_SECONDS + 0.2) -> None:
    """Everything that is left on the servers. The product's processes have ended by now.

    `after_seconds` lets the locks of those that were killed expire.
    """
    await pause(after_seconds)
    await asyncio.to_thread(_gather, remains, journal)


def _gather(remains: Remains, journal: Journal) -> None:
    with redis.Redis.from_url(remains.redis_url, decode_responses=True) as client:
        gather_locks(client, remains.redis_prefix, journal)
    for url, dead in ((remains.queue_url, False), (remains.dlq_url, True)):
        for message in _messages(remains.sqs, url):
            journal.write(_queued(message, url.rpartition("/")[2], dead=dead))
    audit.collect(remains.database_url, journal.folder)


def gather_locks(client: Any, prefix: str, journal: Journal) -> None:
    """All session locks of one Redis, whose client decodes."""
    for key in client.scan_iter(f"{prefix}lock:*", count=1000):
        if (value := client.get(key)) is not None:
            journal.write(RedisKey(key=key, value=str(value), ttl_ms=int(client.pttl(key))))


def _messages(sqs: Any, url: str) -> Iterator[Any]:
    seen: set[str] = set()
    fruitless = 0
    while fruitless < FRUITLESS_RECEIVES:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600, MessageAttributeNames=["All"]
        )
        fresh = [message for message in answer.get("Messages", []) if message["MessageId"] not in seen]
        fruitless = 0 if fresh else fruitless + 1
        seen |= {message["MessageId"] for message in fresh}
        yield from fresh


def _queued(message: Any, queue: str, *, dead: bool) -> QueuedMessage:
    given = message.get("MessageAttributes", {})
    attributes = {name: value["StringValue"] for name, value in given.items() if "StringValue" in value}
    return QueuedMessage(
        queue=queue, dead=dead, message_id=message["MessageId"], body=message["Body"], attributes=attributes
    )
