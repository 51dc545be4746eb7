"""`turnstile doctor` on the real stack: each fault is made, found by its code, and repaired where `--fix` does that."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
import redis.asyncio
from psycopg.sql import SQL, Identifier

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker, evidence, forks, product, start_worker
from tests.e2e.rig import Product
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead, make_failed, rows
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.doctor.database import wake
from turnstile.message_queue import MessageQueues
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import claim
from turnstile.statements.submit import submit
from turnstile.streaming.event import name_stream
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp

__all__ = ["evidence", "forks", "product", "start_worker"]

NOWHERE = {
    "postgres": {"DATABASE_URL": "postgresql://127.0.0.1:1/x"},
    "redis": {"REDIS_URL": "redis://127.0.0.1:1/0"},
    "sqs": {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"},
}


@dataclass(frozen=True)
class Answer:
    """What the command said."""

    code: int | None
    document: dict[str, Any]
    err: str

    @property
    def codes(self) -> list[str]:
        return [one["code"] for one in self.document["findings"]]

    def only(self, code: str) -> dict[str, Any]:
        """The one finding of this code."""
        [one] = [one for one in self.document["findings"] if one["code"] == code]
        return one  # type: ignore[no-any-return]


Doctor = Callable[..., Awaitable[Answer]]
Tamper = Callable[[LiteralString], Awaitable[None]]


@pytest.fixture
def doctor(turnstile: Turnstile, settings: Settings) -> Doctor:
    async def ask(*arguments: str, **environment: str) -> Answer:
        more = {"TURNSTILE_REDIS_PREFIX": settings.redis_prefix, **environment}
        ran = await turnstile("doctor", "--json", *arguments, **more)
        return Answer(ran.code, json.loads(ran.out), ran.err)

    return ask


@pytest.fixture
def tamper(settings: Settings) -> Tamper:
    """Runs a statement without the triggers, as at the psql prompt."""

    async def execute(statement: LiteralString) -> None:
        async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(statement)

    return execute


async def make_pending(database: Database, settings: Settings, session: str = "s", **fields: Any) -> UUID:
    submission = make_submission(settings.queue, session, **fields)
    await submit(database, [submission], net_seconds=60)
    return submission.turn_id


async def make_running(database: Database, settings: Settings, session: str = "s") -> UUID:
    await make_pending(database, settings, session)
    (turn,) = await claim(database, make_terms(settings), [make_claim(session)])
    assert isinstance(turn, ClaimedTurn)
    return turn.id


async def test_nothing_is_found_on_a_system_at_work(
    doctor: Doctor, product: Product, start_worker: StartWorker
) -> None:
    start_worker(TURNSTILE_CONCURRENCY="8")
    for number in range(20):
        await product.submit(*[{"do": "sleep", "seconds": 0.1}] * 5, session=f"s{number}")

    answers = [await doctor()]
    while await product.rows("status IN ('PENDING', 'RUNNING')"):
        answers.append(await doctor())

    assert [answer.codes for answer in answers if answer.codes] == []
    assert {(answer.code, answer.document["complete"]) for answer in answers} == {(0, True)}


@pytest.mark.parametrize("service", NOWHERE)
async def test_a_service_that_is_away_is_found_and_the_rest_is_looked_at(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper, service: str
) -> None:
    await make_running(database, settings)
    await tamper("UPDATE turns SET lease_until = now() - interval '1 h'")

    answer = await doctor(**NOWHERE[service])

    assert (answer.code, answer.document["complete"]) == (4, False)
    assert answer.only("service-unreachable")["subject"] == service
    assert ("running-past-lease" in answer.codes) is (service != "postgres")


async def test_a_database_without_tables_is_not_looked_at(doctor: Doctor, turnstile: Turnstile) -> None:
    await turnstile("migrate", "--down", "--revision", "base", "--yes")

    answer = await doctor()

    assert (answer.code, answer.codes) == (4, ["not-looked-at"])
    assert "turnstile migrate" in answer.only("not-looked-at")["detail"]


async def test_what_is_beyond_the_limit_is_not_looked_at(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.doctor.look.LIMIT", 2)
    for session in "abc":
        await make_running(database, settings, session)
    await tamper("UPDATE turns SET lease_until = now() - interval '1 h'")

    first, second = await doctor("--fix", "--yes"), await doctor()

    assert (first.code, first.codes) == (4, ["running-past-lease", "running-past-lease", "not-looked-at"])
    assert "running-past-lease" in second.codes


async def test_tables_of_another_version_are_found(doctor: Doctor, tamper: Tamper) -> None:
    await tamper("UPDATE alembic_version SET version_num = '9999'")

    answer = await doctor()

    assert (answer.code, answer.codes) == (5, ["schema-revision"])
    assert "9999" in answer.only("schema-revision")["detail"]


async def test_a_missing_queue_is_found(
    doctor: Doctor, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    sqs_client(stack).delete_queue(QueueUrl=address.dlq_url)

    answer = await doctor()
    sqs_client(stack).create_queue(QueueName=settings.find_queue(settings.queue).dlq)

    assert (answer.code, set(answer.codes)) == (5, {"queue-missing"})


async def test_a_redrive_policy_that_moves_wake_ups_away_is_found(
    doctor: Doctor, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{settings.queue}", "maxReceiveCount": "3"}
    sqs_client(stack).set_queue_attributes(QueueUrl=address.url, Attributes={"RedrivePolicy": json.dumps(policy)})

    answer = await doctor()

    assert (answer.code, answer.codes) == (5, ["redrive-policy"])


async def test_fences_that_redis_has_seen_and_postgres_not_are_found_with_the_statement_that_passes_them(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    """As after a restore, where the clock of the new server is slow."""
    seen = time.time_ns() // 1000 + 10**9
    store = redis.asyncio.Redis.from_url(settings.redis_url)
    stream = name_stream(settings.redis_prefix, "t", "s", uuid4())
    await store.xadd(stream, {"kind": "status", "data": "{}"}, id=f"{seen}-1")
    await store.aclose()

    found = await doctor()
    _, statement = found.only("fences-behind")["detail"].rsplit(": ", 1)
    await database.fetch(statement, {})

    assert (found.code, found.codes) == (5, ["fences-behind"])
    assert (await doctor()).codes == []


async def test_messages_that_no_relay_sends_are_found_by_their_queue(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    for session in "abc":
        await make_pending(database, settings, session)
    await tamper("UPDATE turns SET queue = 'elsewhere', send_at = now() - interval '1 h'")

    answer = await doctor()

    assert (answer.code, answer.codes) == (5, ["send-overdue"])
    assert (answer.only("send-overdue")["queue"], answer.only("send-overdue")["detail"]) == ("elsewhere", "3 messages")


async def test_dead_letters_that_no_relay_sends_are_found(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    await make_failed(database, settings, ["s"])
    await tamper("UPDATE turns SET send_at = now() - interval '1 h'")

    assert (await doctor()).codes == ["send-overdue"]


async def test_a_queue_with_due_turns_and_no_living_worker_is_found(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    await make_pending(database, settings)
    await tamper("UPDATE turns SET created_at = now() - interval '1 h'")
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, seen_at)"
        " VALUES ('w', %(queue)s, 'h', 1, 1, now() - interval '1 h')",
        {"queue": settings.queue},
    )

    dead = await doctor()
    await database.fetch("UPDATE workers SET seen_at = now()", {})

    assert (dead.code, dead.codes, dead.only("no-worker")["subject"]) == (5, ["no-worker"], settings.queue)
    assert (await doctor()).codes == []


async def test_a_turn_whose_worker_is_lost_is_found_and_marked_for_a_takeover(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    turn = await make_running(database, settings)
    await tamper("UPDATE turns SET lease_until = now() - interval '1 h'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    finding, row = found.only("running-past-lease"), (await rows(database))[turn]
    assert (found.code, finding["turn_id"], finding["session_id"]) == (5, str(turn), "s")
    assert (finding["remedy"], finding["fixed"], "worker-a" in finding["detail"]) == ("wake", None, True)
    assert (fixed.code, fixed.only("running-past-lease")["fixed"]) == (0, True)
    assert (row["status"], row["attempt"], row["send_at"] is not None) == ("RUNNING", 1, True)


async def test_a_turn_of_a_busy_queue_may_wait_for_its_takeover(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    await make_running(database, settings)
    await tamper("UPDATE turns SET lease_until = now() - interval '9 min'")
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, dwell_seconds) VALUES ('w', %(queue)s, 'h', 1, 1, 300)",
        {"queue": settings.queue},
    )

    assert (await doctor()).codes == []


async def test_a_session_whose_wake_ups_bring_no_worker_is_found_by_its_head_and_woken(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    head, behind = await make_pending(database, settings), await make_pending(database, settings)
    await tamper("UPDATE turns SET sends = 4, send_at = now() + interval '1 h'")

    found, fixed, after = await doctor(), await doctor("--fix", "--yes"), await rows(database)

    assert (found.code, found.codes) == (5, ["session-stuck"])
    assert found.only("session-stuck")["turn_id"] == str(head)
    assert (fixed.code, fixed.only("session-stuck")["fixed"]) == (0, True)
    assert (after[head]["sends"], after[behind]["sends"]) == (0, 4)
    assert after[head]["send_at"] < after[behind]["send_at"]
    assert (await doctor()).codes == []


async def test_what_was_repaired_is_answered_by_the_next_worker(
    doctor: Doctor, product: Product, start_worker: StartWorker, tamper: Tamper
) -> None:
    await make_running(product.database, product.settings, "lost")
    await product.submit("hello", session="stuck", send=False)
    await tamper("UPDATE turns SET lease_until = now() - interval '1 h' WHERE status = 'RUNNING'")
    await tamper("UPDATE turns SET sends = 9, send_at = now() + interval '1 h' WHERE status = 'PENDING'")

    fixed = await doctor("--fix", "--yes")
    start_worker()
    await product.all_in("SUCCEEDED")

    assert {one["code"] for one in fixed.document["findings"] if one["fixed"]} == {
        "running-past-lease",
        "session-stuck",
    }
    assert (await doctor()).codes == []


async def test_a_turn_that_moves_on_before_the_repair_is_left_alone(database: Database, settings: Settings) -> None:
    waits, runs = (
        await make_pending(database, settings, "a", execute_at=datetime.now(UTC) + timedelta(hours=1)),
        await make_running(database, settings, "b"),
    )
    before = await rows(database)

    assert await wake(database, [waits, runs, uuid4()]) == set()
    assert await rows(database) == before


async def test_webhooks_that_no_relay_delivers_are_found(
    doctor: Doctor, database: Database, settings: Settings
) -> None:
    wanted = make_submission(settings.queue, webhook_url="https://hooks.example.com/")
    await submit(database, [wanted], net_seconds=60)
    await cancel(database, "t", wanted.turn_id, CancelReason.USER)
    early = await doctor()
    await database.fetch("UPDATE webhooks SET due_at = now() - interval '1 h'", {})

    late = await doctor()

    assert (early.codes, late.code, late.codes) == ([], 5, ["webhooks-overdue"])


async def test_a_halted_session_is_found_and_not_called_stuck(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    (failed,) = await make_failed(database, settings, ["s"], halt=True)
    await make_pending(database, settings)
    await tamper("UPDATE turns SET sends = 9 WHERE status = 'PENDING'")

    answer = await doctor()

    assert (answer.code, answer.codes) == (5, ["session-halted"])
    assert answer.only("session-halted")["turn_id"] == str(failed)
    assert answer.only("session-halted")["detail"] == "ValueError, turns that wait behind it: 1"


async def test_a_session_that_is_halted_by_no_failed_turn_is_stuck(
    doctor: Doctor, database: Database, settings: Settings, tamper: Tamper
) -> None:
    await make_pending(database, settings)
    await tamper("UPDATE turns SET sends = 9")
    await tamper("UPDATE sessions SET halted_by = gen_random_uuid()")

    assert (await doctor()).codes == ["session-stuck"]


async def test_dead_letters_that_wait_are_found_with_the_command_that_deals_with_them(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])

    found, without = await doctor(), await doctor("--no-dlq")

    finding = found.only("dead-letters-waiting")
    assert (found.code, found.codes) == (5, ["dead-letters-waiting"])
    assert (finding["severity"], finding["subject"], finding["detail"]) == ("warning", settings.queue, "2 still_dead")
    assert "turnstile redrive" in finding["advice"]
    assert (without.code, without.codes) == (0, [])
    assert await queues.count(settings.queue, dead=True) == 2


async def test_dead_letters_that_their_turns_have_outlived_are_found_and_swept(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, tamper: Tamper
) -> None:
    await make_dead(database, queues, settings, ["dead", "canceled"])
    await tamper("UPDATE turns SET status = 'CANCELED' WHERE session_id = 'canceled'")

    found, fixed = await doctor(), await doctor("--fix", "--yes")

    assert (found.code, found.codes) == (5, ["dead-letters-waiting", "dead-letters-outlived"])
    assert found.only("dead-letters-outlived")["detail"] == "1 outlived"
    assert fixed.only("dead-letters-outlived")["fixed"] is True
    assert (await doctor()).codes == ["dead-letters-waiting"]
    assert await queues.count(settings.queue, dead=True) == 1


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_dead_letter_that_sqs_refuses_to_delete_is_not_called_repaired(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, tamper: Tamper
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await tamper("UPDATE turns SET status = 'CANCELED', dead_lettered_at = NULL")

    answer = await doctor("--fix", "--yes")

    assert (answer.code, answer.only("dead-letters-outlived")["fixed"]) == (5, False)
    assert "SQS did not delete 1 dead letters" in answer.err


async def test_messages_that_no_turn_explains_are_found_and_kept(
    doctor: Doctor, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    for body in ("not ours", WakeUp("t", "s", uuid4()).encode()):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    answer = await doctor("--fix", "--yes")

    assert (answer.code, answer.codes) == (5, ["dead-letters-unexplained"])
    assert answer.only("dead-letters-unexplained")["detail"] == "1 malformed, 1 unknown_turn"
    assert await queues.count(settings.queue, dead=True) == 2


async def test_a_look_takes_no_message_that_is_on_its_way(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    turn = await make_pending(database, settings)
    await queues.send(settings.queue, [OutgoingMessage(WakeUp("t", "s", turn), "")])

    await doctor()

    assert len(await queues.receive(settings.queue, 10)) == 1


@pytest.mark.parametrize("default", ["ROLE", "DATABASE"])
async def test_sessions_that_may_idle_in_a_transaction_without_end_are_found(
    doctor: Doctor, settings: Settings, tamper: Tamper, default: str
) -> None:
    role, name = f"writer_{uuid4().hex[:12]}", psycopg.conninfo.conninfo_to_dict(settings.database_url)["dbname"]
    whom = SQL(default) + SQL(" ") + Identifier(role if default == "ROLE" else str(name))  # type: ignore[arg-type]
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
        await connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(role)))
        await connection.execute(SQL("GRANT UPDATE ON turns TO {}").format(Identifier(role)))
        well = await doctor()
        await connection.execute(SQL("ALTER {} SET idle_in_transaction_session_timeout = 0").format(whom))
        found = await doctor()
        await connection.execute(SQL("ALTER {} SET idle_in_transaction_session_timeout = '1min'").format(whom))
        mended = await doctor()
        await connection.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(role)))

    assert (well.codes, found.code, found.codes, mended.codes) == ([], 5, ["idle-in-transaction-timeout"], [])
    assert role in found.only("idle-in-transaction-timeout")["detail"]


async def test_a_repair_asks_first_and_two_at_once_do_no_harm(
    turnstile: Turnstile, product: Product, settings: Settings, start_worker: StartWorker, tamper: Tamper
) -> None:
    await product.submit("one", "two", session="a", send=False)
    await tamper("UPDATE turns SET sends = 9, send_at = now() + interval '1 h'")
    prefix = {"TURNSTILE_REDIS_PREFIX": settings.redis_prefix}

    asked = await turnstile("doctor", "--fix", **prefix)
    await asyncio.gather(*[turnstile("doctor", "--fix", "--yes", **prefix) for _ in range(2)])
    start_worker()
    await until(lambda: product.rows("status = 'SUCCEEDED'"))
    await product.all_in("SUCCEEDED")

    assert (asked.code, "wake 1" in asked.err) == (2, True)
    assert [row["attempt"] for row in await product.rows()] == [1, 1]
    await product.check_sessions()
