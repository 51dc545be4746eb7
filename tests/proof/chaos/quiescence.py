"""After the faults: waiting until everything has settled, and gathering what is left behind."""

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

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


class Site(Protocol):
    """Where something may be left: a database, locks in Redis, a queue and its DLQ."""

    @property
    def admin_url(self) -> str:
        """The run's database, for the superuser."""

    @property
    def locks_url(self) -> str:
        """Of the Redis that has the session locks."""

    @property
    def redis_prefix(self) -> str:
        """Of all keys of the run."""

    @property
    def sqs(self) -> Any:
        """A boto3 client."""

    def queue_url(self, *, dead: bool = False) -> str:
        """Of the queue or of its DLQ."""


async def wait_for_rest(stage: Site, bound_seconds: float) -> float | None:
    """When nothing was owed any more and the main queue was empty; None if that took longer than the bound."""
    deadline = now() + bound_seconds
    while now() < deadline:
        if await asyncio.to_thread(_is_at_rest, stage):
            return now()
        await pause(0.25)
    return None


def _is_at_rest(stage: Site) -> bool:
    with psycopg.connect(stage.admin_url) as connection:
        row = connection.execute(OWED).fetchone()
    if row is None or row[0]:
        return False
    answer = stage.sqs.get_queue_attributes(QueueUrl=stage.queue_url(), AttributeNames=COUNTS)
    return not any(int(value) for value in answer["Attributes"].values())


async def gather(stage: Site, journal: Journal, after_seconds: float = LEASE_SECONDS + 0.2) -> None:
    """Everything that the servers still hold. The product's processes have ended by now.

    `after_seconds` lets the locks of those that were killed expire.
    """
    await pause(after_seconds)
    await asyncio.to_thread(_gather, stage, journal)


def _gather(stage: Site, journal: Journal) -> None:
    with redis.Redis.from_url(stage.locks_url, decode_responses=True) as client:
        for key in client.scan_iter(f"{stage.redis_prefix}lock:*", count=1000):
            value = client.get(key)
            if value is not None:
                journal.write(RedisKey(key=key, value=str(value), ttl_ms=int(client.pttl(key))))
    for dead in (False, True):
        for message in _messages(stage, dead=dead):
            journal.write(message)
    audit.collect(stage.admin_url, journal.folder)


def _messages(stage: Site, *, dead: bool) -> Iterator[QueuedMessage]:
    url = stage.queue_url(dead=dead)
    seen: set[str] = set()
    fruitless = 0
    while fruitless < FRUITLESS_RECEIVES:
        answer = stage.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600, MessageAttributeNames=["All"]
        )
        fresh = [message for message in answer.get("Messages", []) if message["MessageId"] not in seen]
        fruitless = 0 if fresh else fruitless + 1
        for message in fresh:
            seen.add(message["MessageId"])
            yield _queued(message, url.rpartition("/")[2], dead=dead)


def _queued(message: Any, queue: str, *, dead: bool) -> QueuedMessage:
    given = message.get("MessageAttributes", {})
    attributes = {name: value["StringValue"] for name, value in given.items() if "StringValue" in value}
    return QueuedMessage(
        queue=queue, dead=dead, message_id=message["MessageId"], body=message["Body"], attributes=attributes
    )
