"""How a visit of `turnstile doctor` goes: services that are away, dry runs, questions, and systems at work."""

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker, evidence, forks, product, start_worker
from tests.e2e.rig import Product
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead, rows
from tests.ops.commands.test_doctor import Doctor, MakeIll, doctor, make_ill, make_pending, make_running
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.doctor.collect import Examination
from turnstile.ops.doctor.findings import Finding

__all__ = ["doctor", "evidence", "forks", "make_ill", "product", "start_worker"]


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("DATABASE_URL", "postgresql://127.0.0.1:1/x", "postgres-unreachable"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "redis-unreachable"),
        ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1", "sqs-unreachable"),
    ],
)
async def test_a_service_that_is_away_is_a_finding_and_the_rest_is_looked_at(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll, variable: str, value: str, code: str
) -> None:
    await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")

    visit = await doctor(**{variable: value})

    assert (visit.code, visit.document["complete"]) == (4, False)
    assert code in visit.codes
    assert ("running-past-lease" in visit.codes) is (variable != "DATABASE_URL")


GONE = {
    "redis-unreachable": {"redis_url": "redis://127.0.0.1:1/0"},
    "postgres-unreachable": {"database_url": "postgresql://127.0.0.1:1/x"},
    "sqs-unreachable": {"sqs_endpoint_url": "http://127.0.0.1:1"},
}


@pytest.fixture
def away_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Takes a service away for some looks of a visit, and gives it back; the list has the number of each look so far."""
    really_look = Examination.look

    def take_away(code: str, *looks: int) -> list[int]:
        begun: list[int] = []

        async def look(examination: Examination) -> list[Finding]:
            begun.append(len(begun) + 1)
            if begun[-1] not in looks:
                return await really_look(examination)
            gone = examination.settings.model_copy(update=GONE[code])
            async with Examination.open(gone, examination._scope) as blind:
                return await really_look(blind)

        monkeypatch.setattr(Examination, "look", look)
        return begun

    return take_away


@pytest.mark.parametrize("code", GONE)
async def test_a_service_that_is_away_at_the_second_look_only_is_told(
    doctor: Doctor,
    database: Database,
    settings: Settings,
    make_ill: MakeIll,
    away_at: Callable[..., list[int]],
    code: str,
) -> None:
    await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")
    away_at(code, 2)

    visit = await doctor()

    assert (visit.code, visit.document["complete"]) == (4, False)
    assert code in visit.codes


@pytest.mark.parametrize("code", GONE)
async def test_a_third_look_makes_up_for_a_first_that_could_not_see(
    doctor: Doctor,
    database: Database,
    settings: Settings,
    make_ill: MakeIll,
    away_at: Callable[..., list[int]],
    code: str,
) -> None:
    await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")
    looks = away_at(code, 1)

    visit = await doctor()

    assert looks == [1, 2, 3]
    assert (visit.code, visit.document["complete"], visit.codes) == (5, True, ["running-past-lease"])


async def test_a_service_that_goes_away_again_at_the_third_look_is_told(
    doctor: Doctor, away_at: Callable[..., list[int]]
) -> None:
    looks = away_at("redis-unreachable", 1, 3)

    visit = await doctor()

    assert looks == [1, 2, 3]
    assert (visit.code, visit.document["complete"], visit.codes) == (4, False, ["redis-unreachable"])


async def test_a_repair_without_sqs_owes_what_it_could_not_send(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    turn = await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")

    visit = await doctor("--fix", "--yes", AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1")

    assert (visit.code, visit.fixed["running-past-lease"]) == (4, False)
    assert "owed and not sent" in visit.document["failures"][0]
    assert (await rows(database))[turn]["send_at"] is not None


async def test_missing_tables_and_other_revisions_are_found(doctor: Doctor, turnstile: Turnstile) -> None:
    await turnstile("migrate", "--down", "--revision", "base", "--yes")
    empty = await doctor()
    both = await doctor(REDIS_URL="redis://127.0.0.1:1/0")
    await turnstile("migrate")

    # No turn, worker or letter was looked at.
    assert (empty.code, empty.codes, empty.document["complete"]) == (4, ["schema-missing"], False)
    assert sorted(both.codes) == ["redis-unreachable", "schema-missing"]
    assert (await doctor()).code == 0


async def test_tables_of_a_later_program_are_found(doctor: Doctor, make_ill: MakeIll) -> None:
    await make_ill("UPDATE alembic_version SET version_num = '9999'")

    assert (await doctor()).codes == ["schema-revision"]


async def test_missing_queues_and_odd_policies_are_found(
    doctor: Doctor, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    client = sqs_client(stack)
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{settings.queue}", "maxReceiveCount": "3"}
    client.set_queue_attributes(QueueUrl=address.url, Attributes={"RedrivePolicy": json.dumps(policy)})

    odd = await doctor()
    client.delete_queue(QueueUrl=address.dlq_url)
    missing = await doctor()
    client.create_queue(QueueName=settings.find_queue(settings.queue).dlq)

    assert (odd.code, odd.codes) == (5, ["redrive-policy-elsewhere", "redrive-policy-hasty"])
    assert (missing.code, missing.codes) == (5, ["queue-missing"])


async def test_a_dry_run_changes_nothing_and_a_question_without_anybody_is_refused(
    doctor: Doctor, turnstile: Turnstile, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    await make_running(database, settings)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h'")
    before = await rows(database)

    dry = await doctor("--fix", "--dry-run")
    asked = await turnstile("doctor", "--fix", "--settle", "0", TURNSTILE_REDIS_PREFIX=settings.redis_prefix)

    assert (dry.code, dry.document["dry_run"], dry.fixed) == (5, True, {"running-past-lease": None})
    assert asked.code == 2
    assert "wake 1" in asked.err
    assert await rows(database) == before


async def test_people_get_one_line_for_a_finding_and_the_rest_as_a_number(
    turnstile: Turnstile, database: Database, settings: Settings, make_ill: MakeIll
) -> None:
    for session in "abc":
        await make_pending(database, settings, session)
    await make_ill("UPDATE turns SET send_at = now() - interval '1 h'")

    ran = await turnstile("doctor", "--settle", "0", "--limit", "1", TURNSTILE_REDIS_PREFIX=settings.redis_prefix)

    lines = [line for line in ran.out.splitlines() if not line.startswith("info")]
    assert ran.code == 5
    assert [line.split()[:2] for line in lines] == [["error", "send-overdue"], ["error", "send-overdue"]]
    assert "session t/" in lines[0]
    assert "and 2 more" in lines[1]
    assert ran.err.splitlines()[-1].startswith("3 error")


async def test_nothing_is_found_on_a_system_at_work(
    doctor: Doctor, product: Product, start_worker: StartWorker
) -> None:
    async def give_work() -> None:
        for number in range(40):
            await product.submit(*[{"do": "sleep", "seconds": 0.1}] * 5, session=f"s{number}")

    start_worker(TURNSTILE_CONCURRENCY="8")
    await give_work()
    await until(lambda: product.rows("status = 'SUCCEEDED'"))

    visits = [await doctor("--margin", "1")]
    # A visit may take longer than all that work.
    await give_work()
    while await product.rows("status IN ('PENDING', 'RUNNING')"):
        visits.append(await doctor("--margin", "1"))

    assert len(visits) > 1
    assert [visit.codes for visit in visits if visit.codes] == []
    assert {visit.code for visit in visits} == {0}
    await product.check_sessions()


async def test_what_was_repaired_is_answered_by_the_next_worker(
    doctor: Doctor, product: Product, start_worker: StartWorker, make_ill: MakeIll
) -> None:
    # Neither has a message, and no relay runs: only what the doctor sends can bring them to an end.
    lost = await make_running(product.database, product.settings, "lost")
    (unsent,) = await product.submit("hello", session="unsent", send=False)
    await make_ill("UPDATE turns SET lease_until = now() - interval '1 h' WHERE status = 'RUNNING'")
    await make_ill("UPDATE turns SET send_at = now() - interval '1 h' WHERE status = 'PENDING'")
    start_worker(TURNSTILE_RELAY="0")

    fixed = await doctor("--fix", "--yes")
    await product.all_in("SUCCEEDED")

    assert {"running-past-lease", "send-overdue"} <= {code for code, done in fixed.fixed.items() if done}
    assert {row["id"] for row in await product.rows()} == {lost, unsent}
    await product.check_sessions()
    assert (await doctor()).codes == []


async def test_two_repairs_at_once_do_no_harm(
    turnstile: Turnstile, product: Product, settings: Settings, start_worker: StartWorker, make_ill: MakeIll
) -> None:
    await product.submit("one", "two", session="a", send=False)
    await product.submit("three", session="b", send=False)
    await make_ill("UPDATE turns SET send_at = now() - interval '1 h'")
    prefix = {"TURNSTILE_REDIS_PREFIX": settings.redis_prefix}

    await asyncio.gather(
        *[turnstile("doctor", "--fix", "--yes", "--settle", "0", **prefix) for _ in range(2)], return_exceptions=False
    )
    start_worker()
    await product.all_in("SUCCEEDED")

    assert [row["attempt"] for row in await product.rows()] == [1, 1, 1]
    await product.check_sessions()


async def test_more_than_one_visit_lists_is_said_and_never_called_repaired(
    doctor: Doctor, database: Database, settings: Settings, make_ill: MakeIll, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limited in ("turnstile.doctor.symptoms.MOST", "turnstile.ops.doctor.collect.MOST"):
        monkeypatch.setattr(limited, 2)
    for session in "abc":
        await make_pending(database, settings, session)
    await make_ill("UPDATE turns SET send_at = now() - interval '1 h'")

    first, second = await doctor("--fix", "--yes"), await doctor("--fix", "--yes")

    assert (first.code, first.codes) == (5, ["send-overdue", "send-overdue", "more-than-listed"])
    assert (second.code, second.codes) == (0, ["send-overdue"])


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_dead_letter_that_sqs_refuses_to_delete_is_not_called_repaired(
    doctor: Doctor, database: Database, queues: MessageQueues, settings: Settings, make_ill: MakeIll
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await make_ill("UPDATE turns SET status = 'CANCELED', dead_lettered_at = NULL")

    visit = await doctor("--fix", "--yes")

    swept = [one["fixed"] for one in visit.document["findings"] if one["code"] == "dead-letter-outlived"]
    assert (visit.code, sorted(swept)) == (5, [False, True])
    assert "1 dead letters of queue" in visit.document["failures"][0]
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 1
