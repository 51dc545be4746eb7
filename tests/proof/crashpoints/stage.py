"""What a cell has to itself: database, queues and Redis prefix; and what its director does as a client and as an operator."""

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import boto3
import psycopg
import redis

from tests.proof.chaos.journal import Journal
from tests.proof.chaos.quiescence import Remains, are_empty, find_locks, owes_nothing, take_messages
from tests.proof.checker.evidence import Call, Life
from tests.proof.crashpoints.terms import (
    LEASE_SECONDS,
    MALFORMED,
    MAX_CRASHES,
    RESEND_SECONDS,
    SHORT,
    TEMPLATE,
    TENANT,
    declare_queues,
)
from tests.support.factories import PROVEN, make_submission
from turnstile.archive.leaving_turns import ARCHIVE_GONE, DELETE_ROWS
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.dev.stack.stack import LocalStack
from turnstile.erasure.request import request_erasure
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.sweep import sweep
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import cancel_session
from turnstile.statements.claim import ClaimRequest, ClaimTerms, claim
from turnstile.statements.lost_turns import mark_lost
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp

Value = TypeVar("Value")


def _log_to(path: Path) -> None:
    # Log lines of the director's own calls are not evidence.
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 2)
    os.dup2(log, 1)
    os.close(log)


class Stage:
    """Everything a cell has to itself. Made by a process that no longer forks."""

    def __init__(self, stack: LocalStack, folder: Path, *, fifo: bool, **overrides: Any) -> None:
        self.folder = folder
        _log_to(folder / "director.log")
        self._stack = stack
        self._cell = uuid4().hex[:12]
        stem = f"cell-{self._cell}"
        self._sqs: Any = boto3.session.Session().client("sqs", endpoint_url=stack.sqs.address)
        self.declared = declare_queues(stem, fifo=fifo)
        self.database_url = stack.postgres.create_database(f"cell_{self._cell}", template=TEMPLATE)
        self.options: dict[str, Any] = {
            **SHORT,
            "database_url": self.database_url,
            "redis_url": stack.redis.url,
            "aws_region": "us-east-1",
            "sqs_endpoint_url": stack.sqs.address,
            "queues": self.declared,
            "queue": self.declared[0]["name"],
            "redis_prefix": f"{self._cell}:",
        }
        self.settings = Settings(**self.options)
        self.victim_options = self.options | overrides
        queues = [self.settings.queues_by_name[one["name"]] for one in self.declared]
        attributes: Any = {"FifoQueue": "true"} if fifo else {}
        self._urls: dict[str, str] = {
            name: self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            for queue in queues
            for name in (queue.sqs, queue.dlq)
        }
        self.queue, self.dlq = queues[0].sqs, queues[0].dlq
        self.remains = Remains(
            database_url=self.database_url,
            redis_url=stack.redis.url,
            redis_prefix=f"{self._cell}:",
            sqs=self._sqs,
            queue_urls=tuple(self._urls[queue.sqs] for queue in queues),
            dlq_urls=tuple(self._urls[queue.dlq] for queue in queues),
        )
        self.journal = Journal(folder)
        self.fifo = fifo
        self._runner = asyncio.Runner()
        self._database = Database(DatabasePlace(self.database_url), "director", size=1, pinned=True)
        self.run(self._database.open())
        self._queues = MessageQueues(self.settings)
        self._sql = psycopg.connect(self.database_url, autocommit=True)
        self._redis = redis.Redis.from_url(stack.redis.url, decode_responses=True)
        self._locked: str | None = None
        self._row_lock: psycopg.Connection[Any] | None = None
        self.expected: dict[str, str] = {}
        """turn id -> the status that it is to end with."""
        self.malformed = 0

    def close(self) -> None:
        self.unlock_row()
        self.journal.close()
        self._sql.close()
        self.run(self._queues.close())
        self.run(self._database.close())
        self._runner.close()
        for url in self._urls.values():
            self._sqs.delete_queue(QueueUrl=url)
        self._stack.postgres.drop_database(f"cell_{self._cell}")
        with suppress(redis.RedisError):
            if keys := list(self._redis.scan_iter(f"{self._cell}:*", count=1000)):
                self._redis.delete(*keys)

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return self._runner.run(work)

    # --- a client

    def submit(
        self, session: str, *orders: str, send: bool = True, ends: str = "SUCCEEDED", queue: int = 0, **fields: Any
    ) -> None:
        """Submits turns to a session; without `send`, as an API that dies after its commit."""
        resend_seconds = fields.pop("resend_seconds", RESEND_SECONDS)
        if (later := fields.pop("in_seconds", None)) is not None:
            fields["execute_at"] = datetime.now(UTC) + timedelta(seconds=later)
        name = self.declared[queue]["name"]
        at = time.time()
        wanted = [make_submission(name, session, {"do": order}, **fields) for order in orders]
        answers = self.run(submit(self._database, wanted, resend_seconds=resend_seconds))
        accepted = [answer for answer in answers if isinstance(answer, Accepted)]
        for order, answer in zip(orders, accepted, strict=True):
            self.note_submit(session, None, order, at, "ok", str(answer.turn_id))
            self.expected[str(answer.turn_id)] = "FAILED" if order == "fail" else ends
        if send:
            self.wake(session, *(answer.turn_id for answer in accepted), queue=queue)

    def wake_all(self, session: str) -> None:
        """Sends a wake-up for each turn that was submitted, all of them to that session."""
        self.wake(session, *map(UUID, self.expected))

    def wake(self, session: str, *turns: UUID, queue: int = 0) -> None:
        messages = [OutgoingMessage(WakeUp(TENANT, session, turn), "") for turn in turns]
        self.run(self._queues.send(self.declared[queue]["name"], messages))

    def note_submit(
        self, session: str, key: str | None, order: str, at: float, outcome: str, turn_id: str | None
    ) -> None:
        self.journal.write(
            Call(
                client="director",
                op="submit",
                at=at,
                until=time.time(),
                outcome=outcome,
                http={"ok": 202, "unknown": None}[outcome],
                tenant=TENANT,
                session=session,
                key=key,
                content={"do": order},
                turn_id=turn_id,
            )
        )

    def note_erasure(self, at: float, session: str) -> None:
        """An erasure was answered: no turn that was submitted before may be left."""
        erased = Call(client="director", op="erase", at=at, until=time.time(), outcome="ok", http=202, tenant=TENANT)
        self.journal.write(replace(erased, session=session))
        self.expected = dict.fromkeys(self.expected, "missing")

    def send_raw(self, body: str, attributes: dict[str, str] | None = None) -> None:
        fields: dict[str, Any] = {
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": value} for name, value in (attributes or {}).items()
            }
        }
        if self.fifo:
            fields |= {"MessageGroupId": "raw", "MessageDeduplicationId": uuid4().hex}
        self._sqs.send_message(QueueUrl=self._urls[self.queue], MessageBody=body, **fields)

    def send_malformed(self) -> None:
        self.malformed += 1
        self.send_raw(MALFORMED)

    # --- what happened before

    def abandon(self, session: str) -> None:
        """The session's head was claimed by a worker that died; its lease is over, and a relay has marked it."""
        self._claim(session)
        self.journal.write(Life(at=time.time(), role="worker", pid=0, what="ended", code=-9))
        threading.Event().wait(LEASE_SECONDS + 0.05)
        self.run(mark_lost(self._database, PROVEN.by, PROVEN.proven_seconds, 100))

    def fail(self, session: str) -> None:
        """The session's head was claimed, and failed; its dead letter is due."""
        turn = self._claim(session)
        failed = Settlement(
            status=TurnStatus.FAILED,
            outcome=AttemptOutcome.FAILED,
            error_class="ValueError",
            error="not worth a retry",
            fault=True,
            dead_letter=True,
        )
        request = SettleRequest(turn=turn, settlement=failed, more=False, next_claim_id=uuid4())
        self.run(settle(self._database, self._terms(), [request]))

    def cancel_before(self, session: str) -> None:
        """The session's turns were cancelled some time ago: an erasure need not wait for anybody's last words."""
        self.run(cancel_session(self._database, TENANT, session, CancelReason.USER, requested_by="director"))
        # Without the triggers: this is no change that a process of the product has made.
        self._sql.execute("SET session_replication_role = replica")
        self._sql.execute(
            "UPDATE turns SET finished_at = finished_at - interval '1 minute' WHERE session_id = %s", (session,)
        )
        self._sql.execute("RESET session_replication_role")

    def archive_first(self, session: str) -> None:
        """The session's first turn is in the archive."""
        self._sql.execute(
            f"WITH gone AS (DELETE FROM turns WHERE id = (SELECT id FROM turns WHERE session_id = %s ORDER BY seq LIMIT 1)"
            f" RETURNING *), archived AS ({ARCHIVE_GONE}), {DELETE_ROWS} SELECT FROM gone",
            (session,),
        )

    def ask_to_erase(self, session: str | None) -> None:
        """A client, or an operator, has asked for the erasure of the session, or of the tenant."""
        at = time.time()
        self.run(request_erasure(self._database, TENANT, session, "director"))
        self.note_erasure(at, "a")

    def relay(self) -> None:
        self.run(Relay(self._database, self._queues, self.settings).round())

    def _terms(self) -> ClaimTerms:
        return ClaimTerms(
            queue=self.settings.queue, worker_id="before", lease_seconds=LEASE_SECONDS, max_crashes=MAX_CRASHES
        )

    def _claim(self, session: str) -> ClaimedTurn:
        request = ClaimRequest(tenant_id=TENANT, session_id=session, claim_id=uuid4())
        [found] = self.run(claim(self._database, self._terms(), [request]))
        assert isinstance(found, ClaimedTurn), found
        return found

    # --- what is in the way

    def lock_row(self) -> None:
        """Locks the row of the turn that was submitted last."""
        self._row_lock = psycopg.connect(self.database_url)
        self._row_lock.execute("SELECT 1 FROM turns WHERE id = %s FOR NO KEY UPDATE", ([*self.expected][-1],))

    def unlock_row(self) -> None:
        if self._row_lock is not None:
            self._row_lock.close()
            self._row_lock = None

    def lock_session(self, session: str, seconds: float) -> None:
        self._locked = self._lock_key(session)
        self._redis.set(self._locked, "another worker", px=int(seconds * 1000))

    def unlock_session(self) -> None:
        if self._locked is not None:
            self._redis.delete(self._locked)
            self._locked = None

    def mark_waiting(self, session: str, seconds: float) -> None:
        self._redis.set(f"{self._lock_key(session)}:waiting", "1", px=int(seconds * 1000))

    def cache_newer_history(self, session: str) -> None:
        """Redis has a history of the session that is newer than what the table has."""
        self._redis.rpush(f"{self.settings.redis_prefix}history:session:{{{TENANT}/{session}}}", "1000 x whole")

    def _lock_key(self, session: str) -> str:
        return f"{self.settings.redis_prefix}lock:session:{{{TENANT}/{session}}}"

    # --- what is seen of it

    def rows_at_rest(self) -> bool:
        """Whether every turn has ended, and no dead letter is owed."""
        return owes_nothing(self._sql)

    def queues_empty(self) -> bool:
        return are_empty(self.remains)

    def dead_letters_in_flight(self) -> bool:
        names = ["ApproximateNumberOfMessagesNotVisible"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self._urls[self.dlq], AttributeNames=names)
        return int(answer["Attributes"][names[0]]) > 0

    def sweep(self) -> None:
        """The next redrive's sweep, which finds what an earlier one left."""
        self.run(sweep(self._database, self._queues, self.settings.queue))

    def statuses(self) -> dict[str, tuple[str, str | None]]:
        """Status and error class of all turns that no other turn has started."""
        statement = "SELECT id::text, status, error_class FROM turns WHERE parent_turn_id IS NULL"
        rows = self._sql.execute(statement).fetchall()
        return {row[0]: (row[1], row[2]) for row in rows}

    def is_locked(self) -> bool:
        return any(find_locks(self._redis, self.remains.redis_prefix))

    def move_dead_letters_back(self) -> None:
        """With AWS's own tools."""
        for letter in take_messages(self._sqs, self._urls[self.dlq], dead=True):
            self.send_raw(letter.body, letter.attributes)
