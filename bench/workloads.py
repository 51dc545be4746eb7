"""What is to be done, in each contender's own form: rows where it keeps rows, and the messages that are to be sent."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import psycopg

from bench.emulated_sqs import Entry
from bench.stage import Room
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.sealing.contents import PLAIN, Contents
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.turn.identifiers import start_trace, uuid7

TENANT = "bench"
RESEND_SECONDS = 86_400.0
"""Longer than any measurement: what waits for its turn here was not lost, and shall not be sent twice. When it was an hour, the
last turns of an hour of churn had two wake-ups each, and that was what made them dear."""
BATCH = 500

NameSession = Callable[[int], str]
IsTraced = Callable[[int], bool]
Filling = Callable[[Room, int], list[Entry]]


def fill_plain(_: Room, count: int) -> list[Entry]:
    return [{"MessageBody": json.dumps({"number": number})} for number in range(count)]


def fill_jobs(room: Room, count: int) -> list[Entry]:
    """The same, and a row for each."""
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL, attempts int NOT NULL,"
            " started_at timestamptz, finished_at timestamptz)"
        )
        connection.execute("INSERT INTO jobs SELECT n, 'PENDING', 0 FROM generate_series(0, %s) n", [count - 1])
        connection.execute("ANALYZE jobs")
    return fill_plain(room, count)


def fill_turns(
    room: Room,
    count: int,
    name_session: NameSession = lambda number: f"session-{number}",
    is_traced: IsTraced = lambda number: True,
    contents: Contents = PLAIN,
    words: str = "",
) -> list[Entry]:
    """Turns, recorded by the product's own submit, and their wake-ups. Each has a session of its own, unless named.

    `is_traced` is the decision of whoever submits; a worker that exports no traces does not look at it. `contents` seals the
    inputs, which have these `words`, too.

    With fresh statistics: only `burst` is about stale ones.
    """
    entries = record_turns(room, count, name_session, is_traced, contents, words)
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return entries


def fill_turns_of_keys(room: Room, count: int, keys: int) -> list[Entry]:
    """The same of so many tenants, each with a `key` of its own in the metadata of its turns."""

    def make(number: int) -> Submission:
        key = f"key-{number % keys}"
        return replace(_submission(room.queue, number, f"session-{number}"), tenant_id=key, metadata={"key": key})

    entries = asyncio.run(_record(room, count, make))
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return entries


def record_turns(
    room: Room,
    count: int,
    name_session: NameSession,
    is_traced: IsTraced = lambda number: True,
    contents: Contents = PLAIN,
    words: str = "",
) -> list[Entry]:
    """The same without statistics: Postgres believes of the tables what it believed before."""

    def make(number: int) -> Submission:
        submission = _submission(room.queue, number, name_session(number))
        if words:
            submission = replace(submission, content={"number": number, "words": words})
        return replace(submission, trace=submission.trace.with_decision(sampled=is_traced(number)))

    return asyncio.run(_record(room, count, make, contents))


def schedule_turns(room: Room, queue: str, count: int, execute_at: datetime) -> None:
    """Records turns of a queue of this room for one instant, each in a session of its own."""

    def make(number: int) -> Submission:
        return replace(_submission(queue, number, f"{queue}-{number}"), execute_at=execute_at)

    asyncio.run(_record(room, count, make))


async def _record(room: Room, count: int, make: Callable[[int], Submission], contents: Contents = PLAIN) -> list[Entry]:
    entries: list[Entry] = []
    async with Database(DatabasePlace(room.database_url), "bench", size=1, contents=contents) as database:
        for start in range(0, count, BATCH):
            batch = [make(number) for number in range(start, min(start + BATCH, count))]
            answers = await submit(database, batch, resend_seconds=RESEND_SECONDS)
            for submission, accepted in zip(batch, answers, strict=True):
                if not isinstance(accepted, Accepted):
                    raise accepted
                message = accepted.message(submission.tenant_id)
                entries.append({"MessageBody": message.wake_up.encode(), "MessageAttributes": message.attributes})
    return entries


def _submission(queue: str, number: int, session: str) -> Submission:
    return Submission(
        turn_id=uuid7(time.time_ns() // 1_000_000, secrets.randbits(74)),
        tenant_id=TENANT,
        session_id=session,
        queue=queue,
        content={"number": number},
        fingerprint=b"bench",
        trace=start_trace(secrets.randbits(192)),
    )


def fill_celery(room: Room, count: int) -> list[Entry]:
    """Celery's task messages, protocol 2, in kombu's base64 envelope."""
    return [{"MessageBody": _base64(_celery_message(room.queue, number))} for number in range(count)]


def _celery_message(queue: str, number: int) -> Any:
    task_id = str(uuid4())
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return {
        "body": _base64([[number], {}, embedded]),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py", "task": "job", "id": task_id, "root_id": task_id, "parent_id": None, "group": None,
            "retries": 0, "timelimit": [None, None], "eta": None, "expires": None, "shadow": None, "origin": "bench",
            "argsrepr": "", "kwargsrepr": "", "ignore_result": False, "stamps": {}, "stamped_headers": None,
        },
        "properties": {
            "correlation_id": task_id,
            "reply_to": task_id,
            "delivery_mode": 2,
            "delivery_tag": str(uuid4()),
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
        },
    }  # fmt: skip


def _base64(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def fill_taskiq(_: Room, count: int) -> list[Entry]:
    return [
        {
            "MessageBody": json.dumps(
                {"task_id": uuid4().hex, "task_name": "job", "labels": {}, "args": [number], "kwargs": {}}
            )
        }
        for number in range(count)
    ]
