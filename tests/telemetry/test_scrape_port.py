"""The port that a process's metrics are scraped at."""

import socket

import pytest

from tests.support.metric_readings import Scrape, fetch
from turnstile.errors import AddressUnusableError
from turnstile.telemetry.metrics import MESSAGES_RECEIVED
from turnstile.telemetry.scrape_port import serving_metrics


@pytest.mark.usefixtures("recording")
def test_the_port_serves_the_format_that_is_asked_for() -> None:
    MESSAGES_RECEIVED.add(3, "scraped")

    with serving_metrics(0) as port:
        plain = fetch(port)
        open_metrics = fetch(port, "application/openmetrics-text; version=1.0.0")

    assert Scrape(plain).total("turnstile_messages_received_total", queue="scraped") == 3
    assert "# EOF" in open_metrics
    assert "# EOF" not in plain
    assert "# UNIT turnstile_turn_waiting_seconds seconds" in open_metrics


def test_after_the_block_nothing_listens() -> None:
    with serving_metrics(0) as port:
        pass

    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0


def test_a_taken_port_is_one_clear_error() -> None:
    with serving_metrics(0) as port, pytest.raises(AddressUnusableError, match=str(port)), serving_metrics(port):
        pass
