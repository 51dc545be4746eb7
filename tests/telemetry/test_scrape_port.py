"""The port that a process's metrics are scraped at."""

import itertools
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import prometheus_client
import pytest
from structlog.testing import capture_logs

from tests.support.metric_readings import Scrape, fetch
from turnstile.errors import AddressUnusableError
from turnstile.telemetry.metrics import MESSAGES_RECEIVED
from turnstile.telemetry.scrape_port import PAUSE_SECONDS, _Paced, _Request, serving_metrics
from turnstile.telemetry.side_port import MOST_CONNECTIONS


def test_the_port_serves_the_format_that_is_asked_for() -> None:
    MESSAGES_RECEIVED.add(3, "scraped")

    with serving_metrics("127.0.0.1", 0) as port:
        plain = fetch(port)
        open_metrics = fetch(port, "application/openmetrics-text; version=1.0.0")

    assert Scrape(plain).total("turnstile_messages_received_total", queue="scraped") == 3
    assert "# EOF" in open_metrics
    assert "# EOF" not in plain
    assert "# UNIT turnstile_turn_waiting_seconds seconds" in open_metrics


def test_after_the_block_nothing_listens() -> None:
    with serving_metrics("127.0.0.1", 0) as port:
        pass

    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0


def test_a_taken_port_is_one_clear_error() -> None:
    with (
        serving_metrics("127.0.0.1", 0) as port,
        pytest.raises(AddressUnusableError, match=str(port)),
        serving_metrics("127.0.0.1", port),
    ):
        pass


@pytest.fixture
def of_the_handler() -> Iterator[Callable[..., Any]]:
    """Makes metrics in prometheus_client's default registry, as a handler's module does."""
    made: list[Any] = []

    def make(kind: Callable[..., Any], name: str) -> Any:
        made.append(kind(name, "of a handler"))
        return made[-1]

    yield make
    for one in made:
        prometheus_client.REGISTRY.unregister(one)


def test_the_metrics_of_a_handlers_module_are_served(of_the_handler: Callable[..., Any]) -> None:
    of_the_handler(prometheus_client.Counter, "myapp_calls").inc(2)

    with serving_metrics("127.0.0.1", 0) as port:
        scrape = Scrape(fetch(port))
        restricted = Scrape(fetch(port, query="name[]=myapp_calls_total&name[]=turnstile_messages_received_total"))

    assert scrape.total("myapp_calls_total") == 2
    assert "process_cpu_seconds_total" in scrape.names
    assert restricted.names - {"turnstile_messages_received_total"} == {"myapp_calls_total"}


def test_no_name_is_served_twice(of_the_handler: Callable[..., Any]) -> None:
    MESSAGES_RECEIVED.add(1, "scraped")
    of_the_handler(prometheus_client.Counter, "turnstile_messages_received").inc(5)
    of_the_handler(prometheus_client.Gauge, "turnstile_takeovers_total").set(5)

    with serving_metrics("127.0.0.1", 0) as port:
        text = fetch(port)

    heads = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert sorted(set(heads)) == sorted(heads)
    assert "process_cpu_seconds_total" in heads
    assert "of a handler" not in text


def test_a_collector_that_raises_hides_no_metric_of_turnstiles(of_the_handler: Callable[..., Any]) -> None:
    of_the_handler(prometheus_client.Gauge, "myapp_broken").set_function(lambda: 1 / 0)

    with capture_logs() as lines, serving_metrics("127.0.0.1", 0) as port:
        names = Scrape(fetch(port)).names

    assert "process_cpu_seconds_total" in names
    [line] = [line for line in lines if line["event"] == "metrics.not_collected"]
    assert (line["log_level"], "ZeroDivisionError" in line["error"]) == ("warning", True)


def test_idle_connections_stop_no_scrape_and_take_a_bounded_number_of_files() -> None:
    with serving_metrics("127.0.0.1", 0) as port, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3 * MOST_CONNECTIONS)]
        for one in idle:
            one.sendall(b"GET /m")

        assert "turnstile" in fetch(port)
        closed = [one for one in idle[: 2 * MOST_CONNECTIONS] if _is_closed(one)]

    assert len(closed) == 2 * MOST_CONNECTIONS


def test_a_connection_that_keeps_silent_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Request, "timeout", 0.01)
    with serving_metrics("127.0.0.1", 0) as port, socket.create_connection(("127.0.0.1", port)) as idle:
        assert _is_closed(idle)


def test_the_port_listens_at_one_address_if_one_is_given() -> None:
    with serving_metrics("127.0.0.2", 0) as port:
        assert _is_open("127.0.0.2", port)
        assert not _is_open("127.0.0.1", port)
    with serving_metrics("", 0) as port:
        assert _is_open("127.0.0.1", port)


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it within a time that only a hang takes."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def _is_open(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0


def test_scrapes_without_a_pause_take_turns_and_leave_the_process_time() -> None:
    served: list[float] = []

    def app(_: Any, start: Callable[[], None]) -> list[bytes]:
        start()
        served.append(time.monotonic())
        return [b"x"]

    paced = _Paced(app)
    with ThreadPoolExecutor(4) as threads:
        bodies = [*threads.map(lambda _: paced({}, lambda: None), range(4))]

    assert bodies == [[b"x"]] * 4
    assert all(later - earlier >= PAUSE_SECONDS for earlier, later in itertools.pairwise(served))
