"""The checks of services, queues, versions, fences and dead letters, on the real stack."""

import json
from uuid import uuid4

import pytest
import redis.asyncio

from tests.conftest import ROOT, sqs_client
from tests.ops.dead_turns import make_dead
from tests.support.stacks.stack import Stack
from tests.support.stated_version import stating
from tests.support.tampered_turns import LOST, make_pending, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.doctor.run_checks import judge_policy, look, make_terms
from turnstile.statements.paused_queues import pause_queue
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.session_lock import name_lock

NOWHERE = {
    "postgres": {"database_url": "postgresql://127.0.0.1:1/x"},
    "redis": {"redis_url": "redis://127.0.0.1:1/0"},
    "sqs": {"sqs_endpoint_url": "http://127.0.0.1:1"},
}


async def details(settings: Settings) -> dict[str, str]:
    """The details of the findings, by code."""
    return {one.code: one.detail for one in await look(settings, dlq=True)}


@pytest.mark.parametrize("service", NOWHERE)
async def test_a_service_that_is_away_is_found_and_the_others_are_checked(
    database: Database, settings: Settings, service: str
) -> None:
    await make_running(database, settings)
    await tamper(settings, LOST)

    found = await look(settings.model_copy(update=NOWHERE[service]), dlq=True)

    [away] = [one for one in found if one.code == "service-unreachable"]
    assert away.subject == service
    assert (ROOT / away.advice.removeprefix("see the reason and ")).is_file()
    assert ("running-past-lease" in {one.code for one in found}) is (service != "postgres")


async def test_a_lock_that_no_worker_has_set_is_found(settings: Settings, keys: redis.asyncio.Redis) -> None:
    lock = name_lock(settings, "t", "s", "attacker")
    await keys.set(lock.key, lock.token)

    found = await look(settings, dlq=False)

    assert [(one.code, one.subject) for one in found] == [("foreign-lock", lock.key)]


async def test_findings_beyond_the_limit_are_reported_as_not_looked_at(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.doctor.run_checks.LIMIT", 2)
    for session in "abc":
        await make_running(database, settings, session)
    await tamper(settings, LOST)

    found = await look(settings, dlq=False)

    assert [one.code for one in found] == ["running-past-lease", "running-past-lease", "not-looked-at"]


async def test_errors_come_first_and_the_findings_of_a_code_together(database: Database, settings: Settings) -> None:
    await pause_queue(database, "elsewhere", paused_by="ann", reason=None)
    await make_running(database, settings)
    await tamper(settings, LOST)

    found = await look(settings.model_copy(update=NOWHERE["redis"]), dlq=False)

    # Redis is asked twice, also for its fences, and is one finding.
    assert [one.code for one in found] == ["service-unreachable", "running-past-lease", "queue-paused"]


async def test_a_query_that_postgres_refuses_is_reported_as_not_looked_at(settings: Settings) -> None:
    await tamper(settings, "DROP TABLE webhooks")

    [found] = await look(settings, dlq=False)

    assert (found.code, found.subject) == ("not-looked-at", "webhooks-overdue")


@pytest.mark.parametrize(
    ("serves_from", "said"),
    [("0001", "they are newer, and this program can use them"), ("9998", "start a newer release")],
)
async def test_tables_of_another_version_are_found(settings: Settings, serves_from: str, said: str) -> None:
    await tamper(settings, f"UPDATE turnstile_version SET version_num = '9999', serves_from = '{serves_from}'")

    found = await details(settings)

    assert list(found) == ["schema-revision"]
    assert "the tables are at 9999, this program knows 0001" in found["schema-revision"]
    assert said in found["schema-revision"]


async def test_a_server_that_is_too_old_is_found_and_the_others_are_checked(settings: Settings) -> None:
    async with stating(settings.database_url, 14) as url:
        found = await look(settings.model_copy(update={"database_url": url, **NOWHERE["redis"]}), dlq=True)

    by_code = {one.code: one.detail for one in found}
    assert set(by_code) == {"server-too-old", "service-unreachable"}
    assert "PostgreSQL 14." in by_code["server-too-old"]


async def test_a_missing_queue_is_found(queues: MessageQueues, settings: Settings, stack: Stack) -> None:
    sqs_client(stack).delete_queue(QueueUrl=(await queues.find(settings.queue)).dlq_url)

    found = await details(settings)
    sqs_client(stack).create_queue(QueueName=settings.find_queue(settings.queue).dlq)

    assert list(found) == ["queue-missing"]


async def test_a_redrive_policy_that_moves_wake_ups_to_the_dlq_is_found(
    queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{settings.queue}", "maxReceiveCount": "3"}
    url = (await queues.find(settings.queue)).url
    sqs_client(stack).set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})

    assert list(await details(settings)) == ["redrive-policy"]


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (None, []),
        ({"deadLetterTargetArn": "arn:dlq", "maxReceiveCount": "1000"}, []),
        ({"deadLetterTargetArn": "arn:other", "maxReceiveCount": "5"}, ["after 5 receives", "it names arn:other"]),
    ],
)
def test_a_redrive_policy_is_a_backstop_to_the_declared_dlq(policy: dict[str, str] | None, wrong: list[str]) -> None:
    found = judge_policy({} if policy is None else {"RedrivePolicy": json.dumps(policy)}, {"QueueArn": "arn:dlq"})

    assert bool(found) == bool(wrong)
    assert all(text in found for text in wrong)


async def test_dead_letters_are_counted_by_code_and_stay_on_the_queue(
    database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "canceled"])
    await tamper(settings, "UPDATE turns SET status = 'CANCELED' WHERE session_id = 'canceled'")
    url = (await queues.find(settings.queue)).dlq_url
    open_turn = WakeUp("t", "s", await make_pending(database, settings)).encode()
    for body in ("not ours", WakeUp("t", "s", uuid4()).encode(), open_turn):
        sqs_client(stack).send_message(QueueUrl=url, MessageBody=body)

    assert await details(settings) == {
        "dead-letters-waiting": "2 of turns that are FAILED",
        "dead-letters-outlived": "1 of turns that have moved on, 1 moved there by SQS (moved_by_sqs)",
        "dead-letters-unexplained": "1 malformed, 1 of unknown turns",
    }
    assert await look(settings, dlq=False) == []
    assert await queues.count(settings.queue, dead=True) == 6


async def test_dead_letters_beyond_what_is_read_are_counted_as_or_more_and_the_look_is_not_complete(
    database: Database, queues: MessageQueues, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.doctor.run_checks.MOST_LETTERS", 2)
    await make_dead(database, queues, settings, ["a", "b", "c"])
    await tamper(settings, "UPDATE turns SET finished_at = now() - interval '1 h'")

    found = await look(settings, dlq=True)

    assert [(one.code, one.detail) for one in found] == [
        ("not-looked-at", "only 2 of its dead letters were read"),
        ("dead-letters-waiting", "2 or more of turns that are FAILED"),
    ]


def test_a_delay_is_late_only_beyond_the_delays_of_a_healthy_system() -> None:
    settings = Settings(queues=(QueueSettings(name="turns"),))

    terms = make_terms(settings)

    assert terms["takeover"] > settings.takeover_resend_seconds
    assert terms["overdue"] > settings.relay_stamp_seconds + settings.relay_tick_seconds
