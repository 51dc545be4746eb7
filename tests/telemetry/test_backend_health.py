"""Whether Postgres, Redis and SQS respond, as the last call to each has seen it."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.backends.sqs.asking_sqs import COMMAND, CUT, asking, give_environment
from tests.support.giving_credentials import found
from tests.support.metric_readings import reading, rising
from tests.support.scripted_sqs import answer
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import Command, NodeAwayError
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError
from turnstile.telemetry.backend_health import BackendHealth

FAILURES = "turnstile_backend_failures_total"


def up(backend: str) -> float | None:
    return reading("turnstile_backend_up", backend=backend)


def test_before_the_first_call_nothing_is_claimed() -> None:
    health = BackendHealth("unseen")
    assert up("unseen") is None

    health.responded()
    assert up("unseen") == 1

    with rising(FAILURES, 2, backend="unseen"):
        health.failed()
        health.failed()
    assert up("unseen") == 0

    health.responded()
    assert up("unseen") == 1


async def test_postgres_is_up_while_it_responds(database_url: str) -> None:
    async with Database(DatabasePlace(database_url), "test", size=1) as database:
        await database.ping()
    assert up("postgres") == 1

    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        with rising(FAILURES, backend="postgres"), pytest.raises(DatabaseUnavailableError):
            await away.ping()
    assert up("postgres") == 0


async def test_a_statement_that_waits_for_a_lock_or_takes_too_long_is_not_an_outage(database_url: str) -> None:
    async with Database(DatabasePlace(database_url), "test", size=1, statement_timeout_seconds=0.05) as database:
        await database.ping()
        with rising(FAILURES, 0, backend="postgres"), pytest.raises(DatabaseUnavailableError):
            await database.fetch("SELECT pg_sleep(10)", {})
        with rising(FAILURES, 0, backend="postgres"), pytest.raises(psycopg.Error):
            await database.fetch("SELECT 1 / 0", {})
    assert up("postgres") == 1


@pytest.mark.parametrize("error", [RedisConnectionError("refused"), NodeAwayError("one node of a cluster")])
async def test_redis_is_up_while_it_responds(error: Exception) -> None:
    class Client:
        answer: Any = "v"

        async def run(self, commands: Sequence[Command]) -> list[Any]:
            if isinstance(self.answer, RedisConnectionError):
                raise self.answer
            return [self.answer for _ in commands]

    client: Any = Client()
    guarded = GuardedRedis("lock", client, 1.0)
    await guarded.run([("GET", "k")])
    assert up("redis_lock") == 1

    client.answer = error
    with rising(FAILURES, backend="redis_lock"):
        await guarded.run([("GET", "k")])
    assert up("redis_lock") == 0


async def test_sqs_is_up_while_it_responds_even_if_it_refuses_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission that is missing for one operation: the others go on."""
    give_environment(monkeypatch)
    forbidden = answer(b'{"__type": "com.amazonaws.sqs#AccessDeniedException"}', "403 Forbidden")

    async with asking(CUT, forbidden) as (client, _):
        with rising(FAILURES, backend="sqs"), pytest.raises(QueueUnavailableError):
            await client.call(COMMAND, {}, tries=1)
        assert up("sqs") == 0

        with rising(FAILURES, 0, backend="sqs"), pytest.raises(QueueUnavailableError):
            await client.call(COMMAND, {}, tries=1)
        assert up("sqs") == 1


async def test_sqs_that_responds_with_an_error_of_its_own_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)
    broken = answer(b'{"__type": "com.amazonaws.sqs#InternalError"}', "500 Internal Server Error")

    async with asking(broken) as (client, _):
        with rising(FAILURES, backend="sqs"), pytest.raises(QueueUnavailableError):
            await client.call(COMMAND, {}, tries=1)

    assert up("sqs") == 0


@pytest.mark.parametrize(
    "code",
    [
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
    ],
)
async def test_sqs_that_refuses_the_credentials_is_away(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """It would refuse every other call as well."""
    give_environment(monkeypatch)
    refusal = answer(f'{{"__type": "com.amazonaws.sqs#{code}"}}'.encode(), "403 Forbidden")

    async with asking(refusal) as (client, _):
        with rising(FAILURES, backend="sqs"), pytest.raises(QueueUnavailableError):
            await client.call(COMMAND, {}, tries=1)

    assert up("sqs") == 0


async def test_sqs_is_away_for_a_process_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, lambda: None)

    async with asking() as (client, sqs):
        with rising(FAILURES, backend="sqs"), pytest.raises(QueueUnavailableError):
            await client.call(COMMAND, {}, tries=1)

    assert (up("sqs"), sqs.requests) == (0, [])


def test_the_first_failure_is_a_rise_once_the_backend_was_up() -> None:
    """Prometheus sees no increase in a series that begins with its first event."""
    BackendHealth("well so far").responded()

    assert reading(FAILURES, backend="well so far") == 0
