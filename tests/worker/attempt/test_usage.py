"""What handlers report of their calls to models."""

from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.metric_readings import reading, rising
from turnstile.telemetry.own_log import log
from turnstile.worker.attempt.usage import Usage, report_usage


def test_tokens_and_cost_are_counted_by_model_and_stand_in_one_line() -> None:
    labels = {"queue": "used", "model": "small"}
    tokens = "turnstile_handler_tokens_total"

    with (
        rising(tokens, 30, kind="input", **labels),
        rising(tokens, 6, kind="output", **labels),
        rising("turnstile_handler_cost_dollars_total", 0.5, **labels),
        capture_logs() as lines,
    ):
        report_usage(log, "used", Usage.of("small", 10, 5, 0.5))
        report_usage(log, "used", Usage.of("small", 20, 1, None))

    assert lines[0] == {
        "event": "handler.usage", "log_level": "info", "model": "small", "input_tokens": 10, "output_tokens": 5,
        "cost_dollars": 0.5,
    }  # fmt: skip


def test_a_model_without_a_reported_cost_has_no_cost_of_zero() -> None:
    report_usage(log, "used", Usage.of("unpriced", 10, 5, None))

    assert reading("turnstile_handler_cost_dollars_total", queue="used", model="unpriced") is None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (None, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (10**400, 0), ("many", 0), ([1], 0), (Decimal("NaN"), 0),
        (Decimal("0.25"), 0.25), (7, 7), (True, 1),
    ],
)  # fmt: skip
def test_a_report_never_fails_a_turn(given: Any, taken: float) -> None:
    usage = Usage.of("small", given, given, given)

    assert (usage.input_tokens, usage.output_tokens, usage.cost_dollars) == (int(taken), int(taken), taken)


def test_a_model_is_a_short_name() -> None:
    assert Usage.of(None, 1, 1, None).model == "unknown"
    assert len(Usage.of("x" * 5000, 1, 1, None).model) <= 100
