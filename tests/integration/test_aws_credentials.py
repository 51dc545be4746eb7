"""Credentials that are missing, end, or can't be refreshed: an outage by either transport, until they are there."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.credentials import CredentialResolver, Credentials, RefreshableCredentials
from botocore.exceptions import ClientError, CredentialRetrievalError

import turns.lean_transport
from tests.integration.asking_sqs import COMMAND, TransportName, either, give_environment, lean, settings_for
from tests.integration.scripted_sqs import ScriptedSqs, scripted
from tests.probes import until
from turns.envelope import ReceivedMessage
from turns.errors import QueueUnavailableError
from turns.message_queue import MessageQueues
from turns.settings import QueueSettings
from turns.sqs_transport import POLL
from worker.consumer import Consumer
from worker.slots import Slots

Given = dict[str, str]
both = pytest.mark.parametrize("transport_name", ["boto3", "lean"])


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


def given(minutes: float = 60) -> Given:
    """What a provider says."""
    ends = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    return {"access_key": "NEW", "secret_key": "new", "token": "new-token", "expiry_time": ends}


def found(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Credentials | None]) -> None:
    """Has botocore's chain of providers find that."""
    monkeypatch.setattr(CredentialResolver, "load_credentials", lambda _: look())


def temporary(refresh: Callable[[], Given], *, minutes: float = 0.5) -> RefreshableCredentials:
    """Old ones, which are good for so long."""
    ends = datetime.now(UTC) + timedelta(minutes=minutes)
    return RefreshableCredentials("OLD", "old", "old-token", ends, refresh, "test")


def signed_by(sqs: ScriptedSqs) -> list[str]:
    """The keys of the requests that have come."""
    return [request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in sqs.requests]


def refused_by_sts() -> Given:
    answer: Any = {"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}
    raise ClientError(answer, "AssumeRoleWithWebIdentity")


def still_expired() -> Given:
    return given(minutes=-1)


def without_its_file() -> Given:
    raise FileNotFoundError(2, "No such file", "/var/run/secrets/token")


def not_answered() -> Given:
    raise CredentialRetrievalError(provider="test", error_msg="nobody there")


WAYS_TO_FAIL = [refused_by_sts, still_expired, without_its_file, not_answered]


class Hanging:
    """A refresh that does not come back before it may."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.may_end = threading.Event()

    def __call__(self) -> Given:
        self.threads.append(threading.current_thread().name)
        self.may_end.wait(60)
        return given()


@both
@pytest.mark.parametrize("refresh", WAYS_TO_FAIL)
async def test_credentials_that_can_not_be_refreshed_are_an_outage(
    transport_name: TransportName, refresh: Callable[[], Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, lambda: temporary(refresh))
    async with either(transport_name) as (transport, sqs):
        for operation in (POLL, COMMAND):
            with pytest.raises(QueueUnavailableError):
                await transport.call(operation, {})
        with pytest.raises(QueueUnavailableError):
            await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert sqs.requests == []


@both
async def test_a_consumer_goes_on_polling_while_its_credentials_can_not_be_refreshed(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [refused_by_sts, still_expired, without_its_file]

    def refresh() -> Given:
        return (ways.pop() if ways else given)()

    async def process(_: ReceivedMessage) -> None:
        raise AssertionError("no message is ever received")

    found(monkeypatch, lambda: temporary(refresh))
    async with scripted() as sqs:
        url = f"{sqs.address}/1/turns"
        declared = QueueSettings(name="turns", sqs=url, dlq=f"{url}-dlq")
        queues = MessageQueues(settings_for(sqs.address, transport_name).model_copy(update={"queues": (declared,)}))
        stopping = asyncio.Event()
        running = asyncio.create_task(Consumer(queues, "turns", Slots(4), process, stopping).run())
        await until(lambda: sqs.requests or running.done())
        stopping.set()

        await running
        assert ways == []
        queues.close()


# --- missing


@both
async def test_without_credentials_a_call_is_an_outage_and_the_next_one_looks_again(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[Credentials] = []
    found(monkeypatch, lambda: there[0] if there else None)
    async with either(transport_name) as (transport, sqs):
        for _ in range(2):
            with pytest.raises(QueueUnavailableError, match="credentials"):
                await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        assert sqs.requests == []

        there.append(Credentials("LATE", "late"))
        await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert signed_by(sqs) == ["LATE", "LATE"]


@both
async def test_a_provider_that_fails_when_it_is_first_asked_is_asked_again(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [not_answered, without_its_file]

    def look() -> Credentials:
        if ways:
            ways.pop()()
        return Credentials("LATE", "late")

    found(monkeypatch, look)
    async with either(transport_name) as (transport, sqs):
        for _ in range(2):
            with pytest.raises(QueueUnavailableError):
                await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert signed_by(sqs) == ["LATE"]


# --- refreshed beside the event loop


async def test_credentials_are_refreshed_before_they_end_and_not_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    refresh.may_end.set()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with lean() as (transport, sqs):
        await transport.call(COMMAND, {})
        await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["NEW", "NEW"]
        assert {request.headers["x-amz-security-token"] for request in sqs.requests} == {"new-token"}
        assert refresh.threads == ["sqs-credentials_0"]


async def test_calls_go_on_with_credentials_that_are_still_good_while_one_refresh_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with lean() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=5)

        await asyncio.gather(*(transport.call(COMMAND, {}) for _ in range(5)))
        assert signed_by(sqs) == ["OLD"] * 6
        await until(lambda: refresh.threads)

        refresh.may_end.set()
        await until(lambda: not credentials.refresh_needed())
        await transport.call(COMMAND, {})
        assert signed_by(sqs)[-1] == "NEW"
        assert len(refresh.threads) == 1


async def test_credentials_that_are_still_good_serve_although_no_refresh_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = temporary(refused_by_sts, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with lean() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=5)

        for _ in range(3):
            await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["OLD"] * 4


async def test_a_refresh_that_hangs_when_credentials_are_over_is_waited_for_as_long_as_a_command_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns.lean_transport, "COMMAND_SECONDS", 0.2)
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with lean() as (transport, sqs):
        try:
            with pytest.raises(QueueUnavailableError, match="credentials"):
                await transport.call(COMMAND, {})
        finally:
            refresh.may_end.set()

        await until(lambda: not credentials.refresh_needed())
        await transport.call(COMMAND, {})
        assert signed_by(sqs) == ["NEW"]
        assert len(refresh.threads) == 1


async def test_a_caller_that_is_cancelled_does_not_take_the_refresh_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with lean() as (transport, sqs):
        calls = [asyncio.create_task(transport.call(COMMAND, {})) for _ in range(2)]
        await until(lambda: refresh.threads)
        calls[0].cancel()
        refresh.may_end.set()

        await calls[1]
        assert signed_by(sqs) == ["NEW"]


async def test_handlers_that_take_all_of_the_loops_threads_hold_up_no_refresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, lambda: temporary(given))
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    may_end = threading.Event()
    handler = loop.run_in_executor(None, may_end.wait, 60)
    async with lean() as (transport, sqs):
        try:
            async with asyncio.timeout(30):
                await transport.call(COMMAND, {})
            assert not handler.done()
        finally:
            may_end.set()

        assert signed_by(sqs) == ["NEW"]
        await handler
