"""`turnstile doctor` on the real stack: each illness really made, found by its code, and repaired where that is safe."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
import redis.asyncio

from tests.conftest import sqs_client
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead, make_failed, rows
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import claim
from turnstile.statements.submit import submit
from turnstile.streaming.event import name_stream
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.lock_inspection import LockInspector
from turnstile.worker.session_lock import name_lock


@dataclass(frozen=True)
class Visit:
    """What a visit of the doctor came to."""

    code: int | None
    document: dict[str, Any]

    @property
    def codes(self) -> list[str]:
        """The codes of what is wrong, in the report's order."""
        return [finding["code"] for finding in self.document["findings"] if finding["severity"] != "info"]

    @property
    def fixed(self) -> dict[str, bool | None]:
        """Whether each was repaired."""
        return {one["code"]: one["fixed"] for one in self.document["findings"] if one["severity"] != "info"}


Doctor = Callable[..., Awaitable[Visit]]


@pytest.fixture
def doctor(turnstile: Turnstile, settings: Settings) -> Doctor:
    """One visit, with the second look right after the first."""

    async def visit(*arguments: str, **environment: str) -> Visit:
        more = {"TURNSTILE_REDIS_PREFIX": settings.redis_prefix, **environment}
        ran = await turnstile("doctor", "--json", "--settle", "0.1", *arguments, **more)
        return Visit(ran.code, json.loads(ran.out))

    return visit


@pytest.fixture
def make_ill(settings: Settings) -> Callable[[LiteralString], Awaitable[None]]:
    """A hand at the psql prompt: without the triggers, and without the constraint that forbids it."""

    async def execute(statement: LiteralString) -> None:
        async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(statement)

    return execute


MakeIll = Callable[[LiteralString], Awaitable[None]]


async def make_pending(database: Database, settings: Settings, session: str = "s", **fields: Any) -> UUID:
    submission = make_submission(settings.queue, session, **fields)
    await submit(database, [submission], net_seconds=60)
    return submission.turn_id


async def make_running(database: Database, settings: Settings, session: str = "s") -> UUID:
    await make_pending(database, settings, session)
    (turn,) = await claim(database, make_terms(settings), [make_claim(session)])
    assert isinstance(turn, ClaimedTurn)
    return turn.id


async def woken(queues: MessageQueues, settings: Settings) -> list[str]:
    """The bodies of the wake-ups that are in the queue."""
    return [message.body for message in await queues.receive(settings.queue, 10)]


async def test_nothing_is_found_where_nothing_is_wrong(doctor: Doctor, database: Database, settings: Settings) -> None:
    await make_pending(database, settings, "a")
    await make_running(database, settings, "b")

    visit = await doctor()

    assert (visit.code, visit.codes) == (0, [])
    assert visit.document["complete"] is True


async def test_running_past_its_lease_is_found_and_woken(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    turn = await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    (finding,) = [one for one in found.document["findings"] if one["code"] == "running-past-lease"]
    assert (found.code, finding["turn_id"], finding["session_id"]) == (5, str(turn), "s")
    assert (finding["remedy"], finding["fixed"], "worker-a" in finding["detail"]) == ("wake", None, True)
    assert (fixed.code, fixed.fixed) == (0, {"running-past-lease": True})
    assert [str(turn) in body for body in await woken(queues, settings)] == [True]
    row = (await rows(database))[turn]
    assert (row["status"], row["attempt"], row["send_at"] is not None) == ("RUNNING", 1, True)


async def test_a_lease_that_is_renewed_between_the_looks_is_none_that_ran_out(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")

    visit = asyncio.create_task(doctor("--settle", "2"))
    while not visit.done():
        await make_ill("UPDATE turns SET lease_until = clock_timestamp() - interval '1 h'")

    assert ((await visit).code, (await visit).codes) == (0, [])


async def test_pending_without_send_at_is_found_with_the_missing_guard_and_owed(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    turn = await make_pending(database, settings)
    await make_ill("ALTER TABLE turns DROP CONSTRAINT turns_pending_has_send_at")
    await make_ill("UPDATE turns SET send_at = NULL")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    assert (found.code, found.codes) == (5, ["guard-missing", "pending-without-send-at"])
    # Putting a constraint back is for people.
    assert (fixed.code, fixed.fixed) == (5, {"guard-missing": None, "pending-without-send-at": True})
    assert (await rows(database))[turn]["send_at"] is not None
    assert [str(turn) in body for body in await woken(queues, settings)] == [True]


async def test_a_switched_off_trigger_is_found(doctor: Doctor, make_ill: MakeIll) -> None:
    await make_ill("ALTER TABLE turns DISABLE TRIGGER turns_legal_transition")

    visit = await doctor()

    assert [one["subject"] for one in visit.document["findings"] if one["code"] == "guard-missing"] == [
        "turns_legal_transition"
    ]


async def test_a_queue_that_no_relay_sends_is_named_once(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    for session in "abc":
        await make_pending(database, settings, session)
    await make_ill("UPDATE turns SET queue = 'elsewhere', send_at = now() - interval '1 h'")

    found = await doctor()

    [told] = [one for one in found.document["findings"] if one["code"] == "queue-not-relayed"]
    assert (told["subject"], told["detail"]) == ("elsewhere", "3 turns are owed a message")


async def test_what_no_relay_sends_is_found_and_sent(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    head, scheduled = await make_pending(database, settings, "a"), await make_pending(database, settings, "b")
    await make_ill("UPDATE turns SET send_at = now() - interval '1 h'")
    await make_ill("UPDATE turns SET seq = NULL, execute_at = send_at WHERE session_id = 'b'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    assert (found.code, found.codes) == (5, ["send-overdue", "send-overdue"])
    assert (fixed.code, fixed.fixed) == (0, {"send-overdue": True})
    assert {row["seq"] is not None for row in (await rows(database)).values()} == {True}
    bodies = "".join(await woken(queues, settings))
    assert (str(head) in bodies, str(scheduled) in bodies) == (True, True)


async def test_a_stuck_session_is_found_by_its_head_alone(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    head, _ = await make_pending(database, settings), await make_pending(database, settings)
    await make_ill("UPDATE turns SET created_at = now() - interval '1 h', send_at = now() + interval '1 h'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    assert sorted(found.codes) == ["no-worker", "session-stuck"]
    assert [one["turn_id"] for one in found.document["findings"] if one["code"] == "session-stuck"] == [str(head)]
    assert (fixed.code, fixed.fixed) == (5, {"no-worker": None, "session-stuck": True})
    assert [str(head) in body for body in await woken(queues, settings)] == [True]


async def test_a_head_that_waited_for_the_turn_before_it_is_not_stuck(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    await make_failed(database, settings, ["s"], error_class="Reject")
    await make_pending(database, settings)
    await make_ill("UPDATE turns SET created_at = now() - interval '1 h', dead_lettered_at = now(), send_at = now()")
    await make_ill("UPDATE turns SET send_at = NULL WHERE status = 'FAILED'")

    assert (await doctor()).codes == ["no-worker"]


async def test_attempts_over_budget_are_found_and_left_to_people(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    for session in ("crashes", "failures", "unaccounted", "within"):
        await make_pending(database, settings, session)
    await make_ill("UPDATE turns SET crashes = 3, attempt = 3 WHERE session_id = 'crashes'")
    await make_ill("UPDATE turns SET failures = 2, attempt = 2, max_attempts = 2 WHERE session_id = 'failures'")
    await make_ill("UPDATE turns SET attempt = 4 WHERE session_id = 'unaccounted'")
    # A handler may allow more than its queue.
    await make_ill("UPDATE turns SET failures = 9, attempt = 9 WHERE session_id = 'within'")

    visit = await doctor("--fix", "--yes")

    assert visit.code == 5
    assert sorted(one["session_id"] for one in visit.document["findings"] if one["code"] == "attempts-over-budget") == [
        "crashes",
        "failures",
        "unaccounted",
    ]
    assert {row["attempt"] for row in (await rows(database)).values()} == {2, 3, 4, 9}


async def test_failed_turns_get_the_dead_letter_that_they_never_had(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    (never,) = await make_failed(database, settings, ["a"])
    (late,) = await make_failed(database, settings, ["b"])
    await make_failed(database, settings, ["unworthy"], error_class="Reject")
    await make_ill("UPDATE turns SET send_at = NULL WHERE session_id IN ('a', 'unworthy')")
    await make_ill("UPDATE turns SET finished_at = now() - interval '1 h' WHERE session_id = 'b'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")
    after, letters = await rows(database), await queues.receive(settings.queue, 10, dead=True)

    assert (found.code, found.codes) == (5, ["dead-letter-overdue", "failed-without-dead-letter"])
    assert (fixed.code, fixed.fixed) == (0, {"dead-letter-overdue": True, "failed-without-dead-letter": True})
    assert {(after[turn]["send_at"], after[turn]["dead_lettered_at"] is not None) for turn in (never, late)} == {
        (None, True)
    }
    assert sorted(json.loads(letter.body)["turn_id"] for letter in letters) == sorted(map(str, (never, late)))
    assert {letter.dead_letter_generation for letter in letters} == {1}


async def test_wrong_replies_are_found(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    for session in ("missing", "doubled", "unearned"):
        await make_pending(database, settings, session)
    await make_ill(
        "UPDATE turns SET status = 'SUCCEEDED', finished_at = now(), send_at = NULL WHERE session_id <> 'unearned'"
    )
    for ordinal in (1, 2):
        await database.fetch(
            "INSERT INTO messages (turn_id, ordinal, role, content) SELECT id, %(ordinal)s::int, 'assistant', '1'"
            " FROM turns WHERE session_id = 'doubled' OR (session_id = 'unearned' AND %(ordinal)s::int = 1)",
            {"ordinal": ordinal},
        )

    visit = await doctor("--fix", "--yes")

    assert visit.code == 5
    assert {one["code"]: one["session_id"] for one in visit.document["findings"] if one["severity"] == "error"} == {
        "reply-missing": "missing",
        "reply-doubled": "doubled",
        "reply-unearned": "unearned",
    }


async def test_dead_letters_that_their_rows_have_outlived_are_found_and_swept(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    _, answered, redriven = await make_dead(database, queues, settings, ["dead", "answered", "redriven"])
    await make_ill("UPDATE turns SET status = 'SUCCEEDED' WHERE session_id = 'answered'")
    await make_ill(
        "UPDATE turns SET status = 'PENDING', generation = 2, finished_at = NULL,"
        " send_at = now() + interval '1 min' WHERE session_id = 'redriven'"
    )
    await make_ill(
        "INSERT INTO messages (turn_id, ordinal, role, content)"
        " SELECT id, 1, 'assistant', '1' FROM turns WHERE session_id = 'answered'"
    )
    await make_ill("UPDATE turns SET attempt = 0, failures = 0")

    found, without = await doctor(), await doctor("--no-dlq")
    fixed = await doctor("--fix", "--yes")

    assert (found.code, found.codes) == (
        5, ["dead-letter-of-succeeded", "dead-letter-outlived", "dead-letters-waiting"],
    )  # fmt: skip
    assert {one["turn_id"] for one in found.document["findings"] if one["remedy"] == "sweep"} == {
        str(answered), str(redriven),
    }  # fmt: skip
    assert (without.code, without.codes) == (0, [])
    assert (fixed.code, set(fixed.fixed.values())) == (5, {True, None})
    assert await queues.count(settings.queue, dead=True) == 1
    assert "dead-letters-waiting" in (await doctor()).codes


async def test_dead_letters_that_wait_for_somebody_are_a_warning_with_the_command_that_deals_with_them(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])

    found, without = await doctor(), await doctor("--no-dlq")

    [one] = [finding for finding in found.document["findings"] if finding["severity"] != "info"]
    assert (found.code, one["code"], one["severity"], one["subject"], one["detail"]) == (
        5, "dead-letters-waiting", "warning", settings.queue, "2 of them",
    )  # fmt: skip
    assert "turnstile redrive" in one["advice"]
    assert (without.code, without.codes) == (0, [])
    assert await queues.count(settings.queue, dead=True) == 2


async def test_messages_of_others_on_the_dlq_are_shown_and_kept(
    doctor: Doctor, queues: MessageQueues, settings: Settings, stack: Any
) -> None:
    address = await queues.find(settings.queue)
    client = sqs_client(stack)
    client.send_message(QueueUrl=address.dlq_url, MessageBody="not ours")
    client.send_message(QueueUrl=address.dlq_url, MessageBody=WakeUp("t", "s", uuid4()).encode())

    visit = await doctor("--fix", "--yes")

    assert (visit.code, sorted(visit.codes)) == (5, ["dead-letter-malformed", "dead-letter-of-nobody"])
    assert await queues.count(settings.queue, dead=True) == 2


async def test_a_purged_dead_letter_is_missed_and_sent_again(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    (turn,) = await make_dead(database, queues, settings, ["a"])
    await queues.delete(settings.queue, await queues.receive(settings.queue, 10, dead=True), dead=True)
    await make_ill("UPDATE turns SET dead_lettered_at = now() - interval '1 h'")

    fixed = await doctor("--fix", "--yes")

    assert (fixed.code, fixed.fixed) == (0, {"dead-letter-missing": True})
    assert [str(turn) in letter.body for letter in await queues.receive(settings.queue, 10, dead=True)] == [True]


async def test_a_letter_that_somebody_else_is_looking_at_is_not_missed(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    await make_dead(database, queues, settings, ["a"])
    await make_ill("UPDATE turns SET dead_lettered_at = now() - interval '1 h'")
    await queues.receive(settings.queue, 10, dead=True)

    assert (await doctor()).codes == []


async def test_locks_of_workers_that_are_gone_are_found_and_only_everlasting_ones_deleted(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    waiting = await make_pending(database, settings, "for-ever")
    await make_running(database, settings, "at-work")
    locks = {
        session: name_lock(settings, "t", session, f"worker-gone:{uuid4().hex}")
        for session in ("for-ever", "soon-over", "at-work")
    }
    store = redis.asyncio.Redis.from_url(settings.redis_url)
    for session, lock in locks.items():
        await store.set(lock.key, lock.token, px=None if session == "for-ever" else 60_000)
    await store.set(locks["soon-over"].waiting_key, "1")

    found, fixed = await doctor(), await doctor("--fix", "--yes")
    left = [session for session, lock in locks.items() if await store.exists(lock.key)]
    await store.aclose()

    assert (found.code, found.codes) == (5, ["lock-left-for-ever", "lock-without-row"])
    assert [one["subject"] for one in found.document["findings"] if one["remedy"] == "unlock"] == [
        locks["for-ever"].key
    ]
    assert (fixed.code, fixed.fixed) == (5, {"lock-left-for-ever": True, "lock-without-row": None})
    assert left == ["soon-over", "at-work"]
    assert [str(waiting) in body for body in await woken(queues, settings)] == [True]


async def test_a_lock_of_a_worker_that_was_seen_lately_is_its_own_affair(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots) VALUES ('w', %(queue)s, 'h', 1, 1)",
        {"queue": settings.queue},
    )
    guard = OwnSessionLock(settings)
    await guard.acquire(name_lock(settings, "t", "s", "w:1"))

    visit = await doctor()
    await guard.close()

    assert visit.codes == []


async def test_fences_that_redis_has_seen_and_postgres_not_are_found_and_passed(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    """As after a restore, until a worker connects."""
    stream = name_stream(settings.redis_prefix, "t", "s", uuid4())
    seen = 2_000_000_000_000_000
    store = redis.asyncio.Redis.from_url(settings.redis_url)
    await store.xadd(stream, {"kind": "status", "data": "{}"}, id=f"{seen}-1")
    await store.aclose()

    found, fixed, after = await doctor(), await doctor("--fix", "--yes"), await doctor()
    await make_running(database, settings)

    assert (found.code, found.codes) == (5, ["fences-behind"])
    assert (fixed.code, fixed.fixed) == (0, {"fences-behind": True})
    assert after.codes == []
    assert [row["fence"] > seen for row in (await rows(database)).values()] == [True]


async def test_a_lock_that_changed_hands_is_not_deleted(settings: Settings) -> None:
    lock = name_lock(settings, "t", "s", "old:1")
    store = redis.asyncio.Redis.from_url(settings.redis_url)
    await store.set(lock.key, lock.token)
    inspector = LockInspector(settings)
    (seen,) = await inspector.held(10)

    await store.set(lock.key, "new:1")
    changed = await inspector.free(seen)
    await store.set(lock.key, lock.token, px=60_000)
    expiring = await inspector.free(seen)
    await store.persist(lock.key)
    same = await inspector.free(seen)
    await inspector.close()
    await store.aclose()

    assert (changed, expiring, same) == (False, False, True)


async def test_workers_that_fell_silent_are_found_and_forgotten(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, seen_at) VALUES"
        " ('gone', %(queue)s, 'h', 1, 1, now() - interval '1 h'), ('here', %(queue)s, 'h', 2, 1, now() + interval '1 h')",
        {"queue": settings.queue},
    )

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    assert [(one["code"], one["subject"]) for one in found.document["findings"] if one["severity"] != "info"] == [
        ("worker-silent", "gone")
    ]
    assert (fixed.code, fixed.fixed) == (0, {"worker-silent": True})
    assert await database.fetch("SELECT worker_id FROM workers", {}) == [{"worker_id": "here"}]


async def test_turns_of_a_queue_that_is_not_declared_here_are_found(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    await submit(database, [make_submission("elsewhere")], net_seconds=60)

    visit = await doctor()

    assert (visit.code, visit.codes) == (5, ["undeclared-queue"])


async def test_a_doctor_takes_nothing_from_a_message_that_is_on_its_way(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    turn = await make_pending(database, settings)
    await queues.send(settings.queue, [OutgoingMessage(WakeUp("t", "s", turn), "")])

    await doctor()

    assert len(await woken(queues, settings)) == 1


async def test_webhooks_that_nobody_delivers_are_found(doctor: Doctor, database: Database, settings: Settings) -> None:
    wanted = make_submission(settings.queue, webhook_url="https://hooks.example.com/")
    await submit(database, [wanted], net_seconds=60)
    await cancel(database, "t", wanted.turn_id, CancelReason.USER)
    early = await doctor()
    await database.fetch("UPDATE webhooks SET due_at = now() - interval '1 h'", {})

    late = await doctor()

    assert "webhooks-overdue" not in early.codes
    assert "webhooks-overdue" in late.codes
