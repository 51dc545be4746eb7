"""The alarms fire, and the right topic hears of it, as far as the emulator evaluates them: one metric against one threshold.

It computes no metric math (nor keeps it), does not distinguish dimensions, takes all periods for one, and turns no log line into
a metric. Missing data changes nothing in it: so `relay-silent`, which only missing data sets off, cannot fire here, and
`producer-quiet` is set off by a sum of 0. Both, and the formulas, are judged in check_alarm_formulas.py; the log patterns in
check_log_patterns.py and check_lock_events.py.
"""

from typing import Any

import pytest

from tests.infra.alarm_listener import alarms_heard, state, subscribe
from tests.infra.emulator import client
from tests.support.given_queues import GivenQueues
from tests.support.probes import until

PAGES = {
    "turn-failed", "session-halted", "session-still-halted", "oldest", "dlq-untouched", "dlq-unexplained", "deaf-workers",
    "relay-silent", "standstill",
}  # fmt: skip
TELLS = {
    "depth", "lock-timeouts", "lock-held-long", "lock-slow", "leases-lost", "lock-busy", "lock-unavailable",
    "message-malformed", "producer-quiet", "worker-lost", "worker-unwell", "loop-blocked",
}  # fmt: skip
PLAIN = [
    "turn-failed", "session-halted", "message-malformed", "oldest", "standstill", "depth", "lock-timeouts",
    "lock-held-long", "lock-slow", "leases-lost", "worker-lost", "worker-unwell", "loop-blocked",
]  # fmt: skip


@pytest.fixture(scope="module")
def alarms(given: GivenQueues) -> dict[str, dict[str, Any]]:
    """The alarms of the standard queue, by what comes after the deployment and the queue in their names."""
    found = client("cloudwatch", given.tests).describe_alarms(AlarmNamePrefix="check-turns-", MaxRecords=100)
    return {one["AlarmName"].removeprefix("check-turns-"): one for one in found["MetricAlarms"]}


def test_each_alarm_notifies_the_topic_page_or_the_topic_tell(
    given: GivenQueues, alarms: dict[str, dict[str, Any]]
) -> None:
    topics = {name: [arn] for name, arn in given.terraform["topics"].items()}

    assert alarms.keys() == PAGES | TELLS
    assert {name for name, one in alarms.items() if one["AlarmActions"] == topics["page"]} == PAGES
    assert {name for name, one in alarms.items() if one["AlarmActions"] == topics["tell"]} == TELLS


@pytest.mark.parametrize("name", PLAIN)
async def test_an_alarm_fires_and_its_topic_hears_of_it(
    given: GivenQueues, alarms: dict[str, dict[str, Any]], name: str
) -> None:
    alarm = alarms[name]
    cloudwatch, sqs = client("cloudwatch", given.tests), client("sqs", given.tests)
    ear, subscription = subscribe(given, alarm["AlarmActions"][0])
    try:
        cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="begin")
        datum = {"MetricName": alarm["MetricName"], "Dimensions": alarm["Dimensions"]}

        cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=[{**datum, "Value": alarm["Threshold"]}])
        assert state(cloudwatch, alarm) == "OK", "at the threshold it must not fire"
        cloudwatch.put_metric_data(
            Namespace=alarm["Namespace"], MetricData=[{**datum, "Value": alarm["Threshold"] + 1}] * 2
        )

        assert state(cloudwatch, alarm) == "ALARM"
        assert alarm["AlarmName"] in await until(lambda: alarms_heard(sqs, ear))
        cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="end")
        assert alarm["AlarmName"] in await until(lambda: alarms_heard(sqs, ear, "OK")), (
            "the topic hears of its end as well"
        )
    finally:
        client("sns", given.tests).unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=ear)


async def test_a_producer_that_sends_nothing_sets_off_an_alarm_and_one_message_ends_it(
    given: GivenQueues, alarms: dict[str, dict[str, Any]]
) -> None:
    alarm = alarms["producer-quiet"]
    cloudwatch, sqs = client("cloudwatch", given.tests), client("sqs", given.tests)
    ear, subscription = subscribe(given, alarm["AlarmActions"][0])
    datum = {"MetricName": alarm["MetricName"], "Dimensions": alarm["Dimensions"]}
    try:
        cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="begin")

        # As SQS reports it for a queue that is in use.
        cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=[{**datum, "Value": 0.0}])

        assert state(cloudwatch, alarm) == "ALARM"
        assert alarm["AlarmName"] in await until(lambda: alarms_heard(sqs, ear))
        cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=[{**datum, "Value": alarm["Threshold"]}])
        assert state(cloudwatch, alarm) == "OK", "at the threshold it must not fire"
    finally:
        client("sns", given.tests).unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=ear)


def test_silence_of_the_producer_and_of_the_relay_is_news(alarms: dict[str, dict[str, Any]]) -> None:
    assert {name for name, one in alarms.items() if one["TreatMissingData"] == "breaching"} == {
        "producer-quiet",
        "relay-silent",
    }
    assert {one["TreatMissingData"] for one in alarms.values()} == {"breaching", "notBreaching"}
