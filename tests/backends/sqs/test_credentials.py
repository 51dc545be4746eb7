"""Credentials that are missing, expired, or can't be refreshed are an outage. The search for them never blocks the loop."""

import asyncio
from collections.abc import Callable

import pytest
from botocore.credentials import Credentials

import turnstile.backends.sqs.credentials
import turnstile.backends.sqs.sqs_client
from tests.backends.sqs.asking_sqs import COMMAND, asking, give_environment
from tests.support.giving_credentials import Given, Hanging, found, given, refused_by_sts, signed_by, temporary
from tests.support.probes import until
from turnstile.backends.sqs.sqs_client import POLL
from turnstile.errors import QueueUnavailableError, SettingsError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


@pytest.fixture
def at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore is asked at each call, and not once a minute."""
    monkeypatch.setattr(turnstile.backends.sqs.credentials, "FRESH_SECONDS", -1.0)


def still_expired() -> Given:
    return given(minutes=-1)


def without_its_file() -> Given:
    raise FileNotFoundError(2, "No such file", "/var/run/secrets/token")


WAYS_TO_FAIL = [refused_by_sts, still_expired, without_its_file]


@pytest.mark.parametrize("refresh", WAYS_TO_FAIL)
async def test_expired_credentials_without_a_refresh_are_an_outage(
    refresh: Callable[[], Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, lambda: temporary(refresh))
    async with asking() as (client, sqs):
        for operation in (POLL, COMMAND):
            with pytest.raises(QueueUnavailableError):
                await client.call(operation, {})

        assert sqs.requests == []


async def test_without_credentials_a_call_is_an_outage_and_the_next_call_searches_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there: list[Credentials] = []
    found(monkeypatch, lambda: there[0] if there else None)
    async with asking() as (client, sqs):
        for _ in range(2):
            with pytest.raises(QueueUnavailableError, match="credentials"):
                await client.call(COMMAND, {})
        assert sqs.requests == []

        there.append(Credentials("LATE", "late"))
        await client.call(COMMAND, {})

        assert signed_by(sqs) == ["LATE"]


@pytest.mark.parametrize(("failed_searches", "refused"), [(2, False), (3, True)])
async def test_a_process_begins_if_its_third_search_finds_credentials(
    monkeypatch: pytest.MonkeyPatch, failed_searches: int, refused: bool
) -> None:
    """A metadata server that is late looks like none."""
    results: list[Credentials | None] = [None] * failed_searches + [Credentials("LATE", "late")]
    found(monkeypatch, lambda: results.pop(0))
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "CREDENTIALS_AGAIN_SECONDS", (0.0, 0.0, 0.0))
    async with asking() as (client, _):
        if refused:
            with pytest.raises(SettingsError, match="credentials"):
                await client.check_credentials()
        else:
            await client.check_credentials()

    assert len(results) == refused


async def test_credentials_are_refreshed_on_a_separate_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    refresh.may_end.set()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with asking() as (client, sqs):
        await client.call(COMMAND, {})
        await client.call(COMMAND, {})

        assert signed_by(sqs) == ["NEW", "NEW"]
        assert {request.headers["x-amz-security-token"] for request in sqs.requests} == {"new-token"}
        assert refresh.threads == ["aws-credentials_0"]


@pytest.mark.usefixtures("at_each_call")
async def test_valid_credentials_are_used_while_a_refresh_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with asking() as (client, sqs):
        await client.call(COMMAND, {})
        credentials._expiry_time = temporary(refresh, minutes=5)._expiry_time

        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(5)))
        assert signed_by(sqs) == ["OLD"] * 6
        await until(lambda: refresh.threads)

        refresh.may_end.set()
        await until(lambda: not credentials.refresh_needed())
        await client.call(COMMAND, {})
        await client.call(COMMAND, {})
        assert signed_by(sqs)[-1] == "NEW"
        assert len(refresh.threads) == 1


async def test_a_call_waits_for_a_hanging_refresh_only_as_long_as_a_command_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "COMMAND_SECONDS", 0.2)
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with asking() as (client, sqs):
        try:
            with pytest.raises(QueueUnavailableError, match="credentials"):
                await client.call(COMMAND, {})
        finally:
            refresh.may_end.set()

        await until(lambda: not credentials.refresh_needed())
        await client.call(COMMAND, {})
        assert signed_by(sqs) == ["NEW"]
        assert len(refresh.threads) == 1


async def test_a_cancelled_caller_does_not_end_the_refresh_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with asking() as (client, sqs):
        calls = [asyncio.create_task(client.call(COMMAND, {})) for _ in range(2)]
        await until(lambda: refresh.threads)
        calls[0].cancel()
        refresh.may_end.set()

        await calls[1]
        assert signed_by(sqs) == ["NEW"]
