"""The capacity model: proportions that must hold, and the page that shows its tables."""

from dataclasses import replace

import pytest

from bench.capacity import HEADROOM, USUAL, Bearing, Costs, Load, limits, plan, tell
from tests.conftest import ROOT

LOAD = Load(turns_per_second=5_000.0)


def test_ten_times_the_load_is_ten_times_of_everything() -> None:
    one, ten = plan(LOAD), plan(replace(LOAD, turns_per_second=50_000.0))
    for name in ("postgres_cores", "wal_mb_per_second", "hot_gb", "redis_gb", "in_flight", "sqs_requests_per_second"):
        assert getattr(ten, name) == pytest.approx(10 * getattr(one, name))
    assert ten.workers == pytest.approx(10 * one.workers, rel=0.01)


def test_handlers_that_wait_need_slots_and_those_that_do_not_need_cpu() -> None:
    waiting = plan(replace(LOAD, handler_seconds=10.0))
    assert waiting.workers * Bearing().slots * HEADROOM >= LOAD.turns_per_second * 10.0
    at_once = plan(replace(LOAD, handler_seconds=0.0))
    assert at_once.workers * 1000 * HEADROOM >= LOAD.turns_per_second * Costs().worker_cpu_ms


def test_the_smallest_load_needs_a_worker() -> None:
    assert plan(replace(LOAD, turns_per_second=0.001)).workers == 1


def test_at_each_limit_that_part_is_full_and_no_more() -> None:
    bearing = Bearing()
    full = {limit.what: plan(replace(LOAD, turns_per_second=limit.turns_per_second)) for limit in limits(LOAD)}
    assert full["one Redis"].redis_cores == pytest.approx(1.0)
    assert full["one Postgres primary"].postgres_cores == pytest.approx(bearing.postgres_cores)
    in_flight = full["messages in flight of one standard queue"].in_flight
    assert in_flight == pytest.approx(HEADROOM * bearing.in_flight)
    connections = full["connections of one Postgres"].postgres_connections
    assert connections == pytest.approx(HEADROOM * bearing.postgres_connections, rel=0.01)
    tables = full["the hot tables are too large to vacuum and to restore"].hot_gb
    assert tables == pytest.approx(bearing.hot_bytes / 1e9)


def test_limits_come_in_the_order_in_which_they_are_met() -> None:
    rates = [limit.turns_per_second for limit in limits(LOAD)]
    assert rates == sorted(rates)


def test_what_a_million_turns_cost_is_told_for_a_high_and_for_a_low_load() -> None:
    text = tell(USUAL)

    assert "330,000 requests" in text
    assert "3,000,000 requests" in text
    assert "each worker that waits" in text


def test_the_page_shows_what_the_model_says() -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    shown = page.partition("<!-- capacity:begin -->\n")[2].partition("<!-- capacity:end -->")[0]
    assert shown.strip() == tell(USUAL).strip()
