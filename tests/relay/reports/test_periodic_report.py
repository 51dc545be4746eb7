"""A report that is called once a minute: what its gauges show after a failure."""

import asyncio

import pytest

from tests.support.metric_readings import reading
from turnstile.errors import QueueUnavailableError
from turnstile.relay.reports.periodic_report import report_every_minute
from turnstile.telemetry.metrics import DLQ_MESSAGES


@pytest.mark.parametrize("error", [QueueUnavailableError("away"), KeyError("a bug")], ids=["away", "a bug"])
async def test_a_failure_hides_the_series_of_its_report_and_no_other(error: Exception) -> None:
    stopping = asyncio.Event()
    for queue in ("fails", "works"):
        DLQ_MESSAGES.set(7, queue)

    async def fail() -> None:
        stopping.set()
        raise error

    await report_every_minute("dlq", fail, stopping, every_seconds=60.0, gauges=[DLQ_MESSAGES], labels=["fails"])

    assert [reading("turnstile_dlq_messages", queue=queue) for queue in ("fails", "works")] == [None, 7]
