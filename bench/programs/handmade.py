"""`handmade`: the product's job as a careful team writes it without batching.

For each message a lock in Redis, a transaction that makes the row RUNNING, the handler, a transaction that makes it
SUCCEEDED, a delete, and a compare-and-delete of the lock. SQLAlchemy's ORM, redis-py, and boto3 on threads.
"""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config
from redis.asyncio import Redis
from sqlalchemy import CursorResult, update
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.programs.terms import QUEUE_URL, SLEEP_SECONDS, SLOTS, begin

LOCK_MILLISECONDS = 30_000
POLLERS = 2
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Base(DeclarativeBase):
    pass


class Job(Base):
    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str]
    attempts: Mapped[int]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Worker:
    def __init__(self) -> None:
        url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
        self.sessions = async_sessionmaker(
            create_async_engine(url, pool_size=20, max_overflow=0), expire_on_commit=False
        )
        self.redis = Redis.from_url(os.environ["REDIS_URL"])
        self.unlock = self.redis.register_script(UNLOCK)
        self.sqs: Any = boto3.client("sqs", config=Config(max_pool_connections=32))
        self.slots = asyncio.Semaphore(SLOTS)
        self.tasks: set[asyncio.Task[None]] = set()

    async def poll(self) -> None:
        while True:
            await self.slots.acquire()
            wanted = 1
            while wanted < 10 and not self.slots.locked():
                await self.slots.acquire()
                wanted += 1
            answer = await asyncio.to_thread(
                self.sqs.receive_message, QueueUrl=QUEUE_URL, MaxNumberOfMessages=wanted, WaitTimeSeconds=20
            )
            messages = answer.get("Messages", [])
            for _ in range(wanted - len(messages)):
                self.slots.release()
            for message in messages:
                task = asyncio.create_task(self.serve(message))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def serve(self, message: dict[str, Any]) -> None:
        try:
            number = json.loads(message["Body"])["number"]
            key, token = f"lock:job:{number}", uuid4().hex
            if not await self.redis.set(key, token, nx=True, px=LOCK_MILLISECONDS):
                return
            try:
                await self.work(number)
                await asyncio.to_thread(
                    self.sqs.delete_message, QueueUrl=QUEUE_URL, ReceiptHandle=message["ReceiptHandle"]
                )
            finally:
                await self.unlock(keys=[key], args=[token])
        finally:
            self.slots.release()

    async def work(self, number: int) -> None:
        start = {"status": "RUNNING", "attempts": Job.attempts + 1, "started_at": datetime.now(UTC)}
        if not await self.change(number, "PENDING", start):
            return
        begin(number)
        if SLEEP_SECONDS:
            await asyncio.sleep(SLEEP_SECONDS)
        await self.change(number, "RUNNING", {"status": "SUCCEEDED", "finished_at": datetime.now(UTC)})

    async def change(self, number: int, was: str, values: dict[str, Any]) -> bool:
        async with self.sessions.begin() as session:
            statement = update(Job).where(Job.id == number, Job.status == was).values(values)
            changed = await session.execute(statement)
            return isinstance(changed, CursorResult) and changed.rowcount == 1


async def main() -> None:
    worker = Worker()
    # The default has six threads on two cores, fewer than the deletes that are under way at a time.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
    await asyncio.gather(*(worker.poll() for _ in range(POLLERS)))


if __name__ == "__main__":
    asyncio.run(main())
