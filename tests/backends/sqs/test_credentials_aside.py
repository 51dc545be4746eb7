"""Credentials are refreshed beside the event loop, and whoever has refreshed them: the next call is signed with what is there."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import turnstile.backends.sqs.http_calls
from tests.support.asking_sqs import COMMAND, Opened, TransportName, either, give_environment
from tests.support.giving_credentials import Hanging, found, given, refused_by_sts, signed_by, temporary
from tests.support.probes import until
from turnstile.errors import QueueUnavailableError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


@pytest.fixture(params=["boto3", "lean"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """A hand on a scripted SQS; by each transport of the event loop in its turn."""
    name: TransportName = request.param
    return partial(either, name)


async def test_credentials_are_refreshed_before_they_end_and_not_on_the_event_loop(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    refresh.may_end.set()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["NEW", "NEW"]
        assert {request.headers["x-amz-security-token"] for request in sqs.requests} == {"new-token"}
        assert refresh.threads == ["sqs-credentials_0"]


async def test_calls_go_on_with_credentials_that_are_still_good_while_one_refresh_hangs(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
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
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = temporary(refused_by_sts, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=5)

        for _ in range(3):
            await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["OLD"] * 4


async def test_what_the_heartbeat_has_refreshed_signs_the_next_call(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = temporary(given, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=14)
        await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["OLD", "NEW", "NEW"]


async def test_what_the_heartbeat_has_refreshed_signs_the_first_call_after_it_also_when_the_next_refresh_hangs(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a worker whose slots are all taken for an hour: only its heartbeat calls SQS."""
    refresh = Hanging()
    refresh.may_end.set()
    credentials = temporary(refresh, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=14)
        await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        refresh.may_end.clear()
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=5)

        try:
            await transport.call(COMMAND, {})
        finally:
            refresh.may_end.set()

        assert signed_by(sqs) == ["OLD", "NEW", "NEW"]


async def test_a_look_that_the_heartbeats_refresh_overtakes_puts_nothing_back(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh, minutes=20)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=14)
        beat = asyncio.create_task(
            asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        )
        await until(lambda: refresh.threads)
        # Whoever looks while another thread refreshes is given what there was before.
        await transport.call(COMMAND, {})
        await until(lambda: transport._credentials._refresh is None)
        refresh.may_end.set()
        await beat

        await transport.call(COMMAND, {})

        assert signed_by(sqs) == ["OLD", "OLD", "NEW", "NEW"]


async def test_a_refresh_that_hangs_when_credentials_are_over_is_waited_for_as_long_as_a_command_may_take(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.http_calls, "COMMAND_SECONDS", 0.2)
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
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
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh = Hanging()
    credentials = temporary(refresh)
    found(monkeypatch, lambda: credentials)
    async with opened() as (transport, sqs):
        calls = [asyncio.create_task(transport.call(COMMAND, {})) for _ in range(2)]
        await until(lambda: refresh.threads)
        calls[0].cancel()
        refresh.may_end.set()

        await calls[1]
        assert signed_by(sqs) == ["NEW"]


async def test_handlers_that_take_all_of_the_loops_threads_hold_up_no_refresh(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, lambda: temporary(given))
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    may_end = threading.Event()
    handler = loop.run_in_executor(None, may_end.wait, 60)
    async with opened() as (transport, sqs):
        try:
            async with asyncio.timeout(30):
                await transport.call(COMMAND, {})
            assert not handler.done()
        finally:
            may_end.set()

        assert signed_by(sqs) == ["NEW"]
        await handler
