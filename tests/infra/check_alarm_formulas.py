"""The queues' alarms that the emulator cannot evaluate, judged by numbers: those of metric math, and the two of silence.

Formulas and what they are fed with are taken from Terraform's state, because the emulator keeps none; how an alarm treats
missing data, of which the emulator's evaluation knows nothing, from the alarm as it was made. tests/infra/metric_math.py judges.
"""

from typing import Any

import pytest

from tests.infra.emulator import client
from tests.infra.metric_math import Rule, Series, evaluate
from tests.support.given_queues import GivenQueues

_ = None
QUEUES = ("turns", "strict")
SQS = {"turns": "check-turns", "strict": "check-strict.fifo"}
DLQ = {"turns": "check-turns-dlq", "strict": "check-strict-dlq.fifo"}
LOG = "Turnstile/check"


@pytest.fixture(scope="module")
def made(given: GivenQueues) -> dict[str, dict[str, Any]]:
    """The alarms as the emulator has them, by what comes after the deployment in their names."""
    found = client("cloudwatch", given.tests).describe_alarms(AlarmNamePrefix="check-", MaxRecords=100)
    return {one["AlarmName"].removeprefix("check-"): one for one in found["MetricAlarms"]}


@pytest.fixture(scope="module")
def queries(given: GivenQueues) -> dict[str, list[dict[str, Any]]]:
    """What the computed ones compute, by the same names."""
    return {
        one["alarm_name"].removeprefix("check-"): one["metric_query"]
        for one in given.terraform["alarms"]
        if one["metric_query"] and one["alarm_name"] != "check-api-errors"
    }


def rule_of(alarm: dict[str, Any]) -> Rule:
    """What the alarm asks of its numbers."""
    assert "DatapointsToAlarm" not in alarm, "every one of the periods counts"
    return Rule(alarm["ComparisonOperator"], alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"])


def formula_of(queries: list[dict[str, Any]]) -> str:
    """The one expression that is judged."""
    [judged] = [one for one in queries if one["return_data"]]
    return str(judged["expression"])


Sources = dict[str, tuple[str, str, dict[str, str] | None, str, int]]


def sources(queue: str) -> dict[str, Sources]:
    """By alarm and id: namespace, metric, dimensions, statistic and period."""
    own, dead = {"QueueName": SQS[queue]}, {"QueueName": DLQ[queue]}
    return {
        "deaf-workers": {
            "waiting": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", own, "Minimum", 60),
            "received": ("AWS/SQS", "NumberOfMessagesReceived", own, "Sum", 60),
            "paused": (LOG, f"{queue}.paused", None, "Maximum", 60),
        },
        "dlq-untouched": {
            "messages": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", dead, "Maximum", 60),
            "looked_at": ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", dead, "Maximum", 60),
            "untouched": (LOG, f"{queue}.untouched_seconds", None, "Maximum", 60),
        },
        "session-still-halted": {"halted": (LOG, f"{queue}.halted_seconds", None, "Maximum", 60)},
        "dlq-unexplained": {
            "messages": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", dead, "Maximum", 60),
            "letters": (LOG, f"{queue}.letters", None, "Maximum", 60),
        },
        "lock-busy": {
            "attempts": (LOG, f"{queue}.lock_attempt", None, "Sum", 300),
            "busy": (LOG, f"{queue}.lock_busy", None, "Sum", 300),
            "due": (LOG, f"{queue}.backlog_due", None, "Maximum", 300),
        },
        "lock-unavailable": {
            "attempts": (LOG, f"{queue}.lock_attempt", None, "Sum", 300),
            "unguarded": (LOG, f"{queue}.lock_unguarded", None, "Sum", 300),
        },
    }


@pytest.mark.parametrize("queue", QUEUES)
def test_each_formula_is_fed_with_the_metrics_of_its_queue(
    queries: dict[str, list[dict[str, Any]]], queue: str
) -> None:
    fed = {
        name.removeprefix(f"{queue}-"): {
            one["id"]: (m["namespace"], m["metric_name"], m["dimensions"], m["stat"], m["period"])
            for one in found
            for m in one["metric"]
        }
        for name, found in queries.items()
        if name.startswith(f"{queue}-")
    }

    assert fed == sources(queue)


def test_the_metrics_that_are_counted_from_the_log_are_counted(
    given: GivenQueues, queries: dict[str, list[dict[str, Any]]]
) -> None:
    """A formula over a metric that no filter makes would never fire, and nothing would say so."""
    logs = client("logs", given.tests)
    counted = {
        (one["metricNamespace"], one["metricName"])
        for page in logs.get_paginator("describe_metric_filters").paginate()
        for filters in page["metricFilters"]
        for one in filters["metricTransformations"]
    }
    metrics = [m for found in queries.values() for one in found for m in one["metric"]]

    assert {(m["namespace"], m["metric_name"]) for m in metrics if m["namespace"] != "AWS/SQS"} <= counted


FIVE = (1.0,) * 5
NONE = (_,) * 5

FIRES = "ALARM"
RESTS = "OK"

GOES_ON = (0.0,) * 5
DEAF = [
    (FIRES, "nobody has received for five minutes", FIVE, (0.0,) * 5, GOES_ON),
    (FIRES, "SQS reports nothing about receives", FIVE, NONE, GOES_ON),
    (RESTS, "one receive in the five minutes", FIVE, (0.0, 0.0, 1.0, 0.0, 0.0), GOES_ON),
    (RESTS, "nothing waited for one of them", (1.0, 1.0, 0.0, 1.0, 1.0), (0.0,) * 5, GOES_ON),
    (RESTS, "a queue that nobody has used for hours has no metrics", NONE, NONE, GOES_ON),
    # The guide warns of FILL where the newest minute always comes late: it takes all five here, so that one is not enough.
    (RESTS, "the newest minute of the receives is late", FIVE, (3.0, 3.0, 3.0, 3.0, _), GOES_ON),
    (FIRES, "what lies before the five minutes is not looked at", (1.0,) * 8, (9.0, 9.0, 9.0, *(0.0,) * 5), (0.0,) * 8),
    (RESTS, "operators have paused the queue", FIVE, (0.0,) * 5, FIVE),
    (RESTS, "and one of the relays' lines is missing", (1.0,) * 6, (0.0,) * 6, (1.0, 1.0, _, 1.0, 1.0, 1.0)),
    (RESTS, "they have resumed it three minutes ago", FIVE, (0.0,) * 5, (1.0, 1.0, 0.0, 0.0, 0.0)),
    (FIRES, "they have resumed it, and nobody has received for five minutes", (1.0,) * 6, (0.0,) * 6, (1.0, *GOES_ON)),
    (FIRES, "relays report nothing about a pause", FIVE, (0.0,) * 5, NONE),
]
DAY = 86_400.0
UNTOUCHED = [
    (FIRES, "a letter for more than a day", (1.0,), (0.0,), (DAY + 1,)),
    (RESTS, "a letter for a day", (1.0,), (0.0,), (DAY,)),
    (FIRES, "somebody looks at it, and it is not visible meanwhile", (0.0,), (1.0,), (DAY + 1,)),
    (RESTS, "the letters were purged", (0.0,), (0.0,), (DAY + 1,)),
    (RESTS, "redriven", (1.0,) * 2, (0.0,) * 2, (DAY + 1, 30.0)),
    (FIRES, "and a line is missing", (1.0,) * 2, (0.0,) * 2, (DAY + 1, _)),
    (FIRES, "SQS reports nothing about messages in flight", (1.0,), (_,), (DAY + 1,)),
    (RESTS, "relays report nothing: nothing is known", FIVE, NONE, NONE),
]
FEW_WAIT = (4.0,) * 3
BUSY = [
    (RESTS, "5 % of 200", (200.0,) * 3, (10.0,) * 3, FEW_WAIT),
    (FIRES, "more than 5 %", (200.0,) * 3, (11.0,) * 3, FEW_WAIT),
    (FIRES, "relays report nothing about a backlog", (200.0,) * 3, (11.0,) * 3, (_,) * 3),
    (RESTS, "a backlog is drained", (200.0,) * 3, (100.0,) * 3, (9000.0, 5000.0, 101.0)),
    (RESTS, "a hundred attempts are too few to judge", (100.0,) * 3, (100.0,) * 3, FEW_WAIT),
    (RESTS, "in one of three periods it was well", (200.0,) * 3, (11.0, 0.0, 11.0), FEW_WAIT),
    (RESTS, "no log at all", (_,) * 3, (_,) * 3, (_,) * 3),
    (RESTS, "attempts, and no number of those that were busy", (200.0,) * 3, (_,) * 3, FEW_WAIT),
]
UNAVAILABLE = [
    (RESTS, "0.1 %", (1000.0,) * 3, (1.0,) * 3),
    (FIRES, "a little more than 0.1 %", (100_000.0,) * 3, (101.0,) * 3),
    (FIRES, "the only attempt", (1.0,) * 3, (1.0,) * 3),
    (RESTS, "in one of three periods it was well", (1000.0,) * 3, (2.0, 2.0, 1.0)),
    (RESTS, "no log at all", (_,) * 3, (_,) * 3),
    (RESTS, "attempts, and no number of those without Redis", (1000.0,) * 3, (_,) * 3),
]
HALTED = [
    (FIRES, "for longer than half an hour", (1801.0,)),
    (RESTS, "for half an hour: whoever was paged is at it", (1800.0,)),
    (RESTS, "nothing is reported", NONE),
    (FIRES, "and a line is missing", (3600.0, _)),
    (RESTS, "until somebody let it go on", (3600.0, 3660.0, 0.0)),
]
UNEXPLAINED = [
    (FIRES, "a message that no failed turn explains", FIVE, (0.0,) * 5),
    (FIRES, "one more than there are letters", (4.0,) * 5, (3.0,) * 5),
    (RESTS, "every message is a letter", (3.0,) * 5, (3.0,) * 5),
    (RESTS, "letters were purged, or somebody looks at them", (0.0,) * 5, (3.0,) * 5),
    (RESTS, "for four minutes", (1.0, 1.0, 0.0, 1.0, 1.0), (0.0,) * 5),
    (FIRES, "and a line is missing", (1.0,) * 6, (0.0, 0.0, _, 0.0, 0.0, 0.0)),
    (RESTS, "relays report nothing: nothing is known", FIVE, NONE),
]
CASES = [
    pytest.param(alarm, dict(zip(ids, series, strict=True)), state, id=f"{alarm}: {what}")
    for alarm, ids, cases in (
        ("deaf-workers", ("waiting", "received", "paused"), DEAF),
        ("dlq-untouched", ("messages", "looked_at", "untouched"), UNTOUCHED),
        ("session-still-halted", ("halted",), HALTED),
        ("dlq-unexplained", ("messages", "letters"), UNEXPLAINED),
        ("lock-busy", ("attempts", "busy", "due"), BUSY),
        ("lock-unavailable", ("attempts", "unguarded"), UNAVAILABLE),
    )
    for state, what, *series in cases
]


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(("alarm", "metrics", "state"), CASES)
def test_a_formula_fires_for_what_it_is_about_and_for_nothing_else(
    made: dict[str, dict[str, Any]],
    queries: dict[str, list[dict[str, Any]]],
    queue: str,
    alarm: str,
    metrics: dict[str, Series],
    state: str,
) -> None:
    values = evaluate(formula_of(queries[f"{queue}-{alarm}"]), metrics)

    assert rule_of(made[f"{queue}-{alarm}"]).fires(values) is (state == FIRES), values


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("alarm", "metrics"),
    [
        ("session-still-halted", {"halted": (3600.0,)}),
        ("dlq-unexplained", {"messages": (1.0,), "letters": (0.0,)}),
        ("dlq-untouched", {"messages": (1.0,), "looked_at": (0.0,), "untouched": (90_000.0,)}),
    ],
)
def test_what_nobody_deals_with_pages_again_each_hour(
    made: dict[str, dict[str, Any]],
    queries: dict[str, list[dict[str, Any]]],
    queue: str,
    alarm: str,
    metrics: dict[str, Series],
) -> None:
    """CloudWatch notifies of a change of state: so the alarm must rest once in between, and fire again."""
    rule = rule_of(made[f"{queue}-{alarm}"])
    day = 24 * 60
    values = evaluate(formula_of(queries[f"{queue}-{alarm}"]), {name: one * day for name, one in metrics.items()})

    states = [rule.fires(values[: minute + 1]) for minute in range(day)]

    assert sum(after and not before for before, after in zip([False, *states], states, strict=False)) == 24
    assert made[f"{queue}-{alarm}"].get("OKActions", []) == []


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(("alarm", "metric"), [("turn-failed", "failed_lately"), ("session-halted", "halted_lately")])
def test_failures_and_halts_page_by_what_the_tables_say_however_many_relays_report_it(
    made: dict[str, dict[str, Any]], queue: str, alarm: str, metric: str
) -> None:
    found = made[f"{queue}-{alarm}"]

    assert (found["Namespace"], found["MetricName"], found["Statistic"]) == (LOG, f"{queue}.{metric}", "Maximum")
    assert (found["Period"], found["EvaluationPeriods"], found["Threshold"]) == (60, 1, 0)


@pytest.mark.parametrize("alarm", ["lock-busy", "lock-unavailable"])
def test_where_nobody_locked_the_answer_is_0_and_not_nothing(
    queries: dict[str, list[dict[str, Any]]], alarm: str
) -> None:
    """By 0 it divides only where IF has chosen otherwise: a dropped point would keep the last state in the alarm's eyes."""
    ids = [one["id"] for one in queries[f"turns-{alarm}"] if one["metric"]]

    assert evaluate(formula_of(queries[f"turns-{alarm}"]), dict.fromkeys(ids, (0.0, 0.0))) == (0.0, 0.0)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("alarm", "values", "state"),
    [
        ("producer-quiet", (0.0,) * 12, FIRES),
        ("producer-quiet", (*(0.0,) * 11, 1.0), RESTS),
        ("producer-quiet", (1.0, *(0.0,) * 12), FIRES),
        ("producer-quiet", (0.0,) * 11, FIRES),
        ("producer-quiet", (_,) * 15, FIRES),
        ("producer-quiet", (*(0.0,) * 5, *(_,) * 10), FIRES),
        ("producer-quiet", (3.0, *(_,) * 14), RESTS),
        ("relay-silent", (_,) * 8, FIRES),
        ("relay-silent", (1.0,) * 5, RESTS),
        ("relay-silent", (2.0, 2.0, _, _, _, _), RESTS),
        ("relay-silent", (_, _, _, _, 1.0), RESTS),
    ],
)
def test_silence_fires(made: dict[str, dict[str, Any]], queue: str, alarm: str, values: Series, state: str) -> None:
    assert rule_of(made[f"{queue}-{alarm}"]).fires(values) is (state == FIRES)


@pytest.mark.parametrize("queue", QUEUES)
def test_silence_is_listened_for_on_the_metric_of_its_queue(made: dict[str, dict[str, Any]], queue: str) -> None:
    quiet, silent = made[f"{queue}-producer-quiet"], made[f"{queue}-relay-silent"]

    assert (quiet["Namespace"], quiet["MetricName"], quiet["Statistic"]) == ("AWS/SQS", "NumberOfMessagesSent", "Sum")
    assert quiet["Dimensions"] == [{"Name": "QueueName", "Value": SQS[queue]}]
    assert quiet["Period"] * quiet["EvaluationPeriods"] == 3600
    # How many lines a minute, and not what they say: an empty backlog is reported as well.
    assert (silent["Namespace"], silent["MetricName"], silent["Statistic"]) == (
        LOG, f"{queue}.backlog_due", "SampleCount",
    )  # fmt: skip
    assert silent["Period"] * silent["EvaluationPeriods"] == 300
