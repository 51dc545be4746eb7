"""Alarms on what Turnstile stands on, and on a failed step of a relay, fire and are heard, and a failed deployment is heard of.

The emulator runs none of it: its metrics are written by the tests. It refuses events of AWS's services, as AWS does, so the
rule's pattern is matched against an event, and its target is given an event of another source.
"""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.infra.alarm_listener import alarms_heard, state, subscribe
from tests.infra.emulator import client
from tests.infra.metric_math import Series, evaluate
from tests.support.given_queues import GivenQueues
from tests.support.probes import until

PAGES = {"postgres-storage", "locks-1-redis-memory", "api-errors", "relay-step-failed"}
TELLS = {
    "worker-service-cpu", "worker-service-memory", "postgres-cpu", "postgres-memory", "postgres-connections",
    "locks-1-redis-cpu", "locks-1-redis-evictions", "locks-1-redis-replication-lag",
}  # fmt: skip
FAILED = {
    "version": "0",
    "id": "ddca6449-b258-46c0-8653-e0e3a6000000",
    "detail-type": "ECS Deployment State Change",
    "source": "aws.ecs",
    "account": "000000000000",
    "time": "2026-11-24T12:31:14Z",
    "region": "us-east-1",
    "detail": {
        "eventType": "ERROR",
        "eventName": "SERVICE_DEPLOYMENT_FAILED",
        "deploymentId": "ecs-svc/123",
        "updatedAt": "2026-11-24T11:11:11Z",
        "reason": "ECS deployment circuit breaker: task failed to start.",
    },
}
"""The example of ECS's Developer Guide, without its service."""
_ = None


@pytest.fixture(scope="module")
def alarms(given: GivenQueues) -> dict[str, dict[str, Any]]:
    """The alarms that belong to no queue, by what comes after the deployment in their names."""
    found = client("cloudwatch", given.tests).describe_alarms(AlarmNamePrefix="check-", MaxRecords=100)
    names = {one["AlarmName"].removeprefix("check-"): one for one in found["MetricAlarms"]}
    return {name: one for name, one in names.items() if not name.startswith(("turns-", "strict-"))}


def test_each_alarm_notifies_the_topic_page_or_the_topic_tell(
    given: GivenQueues, alarms: dict[str, dict[str, Any]]
) -> None:
    topics = {name: [arn] for name, arn in given.terraform["topics"].items()}

    assert alarms.keys() == PAGES | TELLS
    assert {name for name, one in alarms.items() if one["AlarmActions"] == topics["page"]} == PAGES
    assert {name for name, one in alarms.items() if one["AlarmActions"] == topics["tell"]} == TELLS


@pytest.mark.parametrize("name", sorted((PAGES | TELLS) - {"api-errors"}))
async def test_an_alarm_fires_beyond_its_threshold_and_its_topic_hears_of_it(
    given: GivenQueues, alarms: dict[str, dict[str, Any]], name: str
) -> None:
    alarm = alarms[name]
    cloudwatch, sqs = client("cloudwatch", given.tests), client("sqs", given.tests)
    ear, subscription = subscribe(given, alarm["AlarmActions"][0])
    beyond = -1 if alarm["ComparisonOperator"] == "LessThanThreshold" else 1
    datum = {"MetricName": alarm["MetricName"], "Dimensions": alarm["Dimensions"]}
    try:
        cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="begin")
        cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=[{**datum, "Value": alarm["Threshold"]}])
        assert state(cloudwatch, alarm) == "OK", "at the threshold it must not fire"

        data = [{**datum, "Value": alarm["Threshold"] + beyond}] * 2
        cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=data)

        assert state(cloudwatch, alarm) == "ALARM"
        assert alarm["AlarmName"] in await until(lambda: alarms_heard(sqs, ear))
    finally:
        client("sns", given.tests).unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=ear)


@pytest.mark.parametrize(
    ("requests", "failed", "refused", "share"),
    [
        ((100.0,), (5.0,), (_,), 5.0),
        ((100.0,), (_,), (_,), 0.0),
        # The load balancer found no target: it counts no request, and answers all of them itself.
        ((_,), (_,), (50.0,), 100.0),
        # Too few to judge.
        ((20.0,), (20.0,), (_,), 0.0),
        ((_,), (_,), (_,), None),
    ],
)
def test_the_share_of_refused_requests(
    given: GivenQueues, requests: Series, failed: Series, refused: Series, share: float | None
) -> None:
    [alarm] = [one for one in given.terraform["alarms"] if one["alarm_name"] == "check-api-errors"]
    [formula] = [one["expression"] for one in alarm["metric_query"] if one["return_data"]]

    assert evaluate(formula, {"requests": requests, "failed": failed, "refused": refused}) == (share,)
    assert alarm["threshold"] == 5


@pytest.mark.parametrize(
    ("change", "matches"),
    [
        ({}, True),
        ({"eventName": "SERVICE_DEPLOYMENT_COMPLETED"}, False),
        ({"eventName": "SERVICE_DEPLOYMENT_IN_PROGRESS"}, False),
        ({"service": "arn:aws:ecs:us-east-1:000000000000:service/check/other"}, False),
    ],
    ids=["failed", "completed", "in progress", "another service"],
)
def test_the_rule_is_for_failed_deployments_of_the_services_that_are_named(
    given: GivenQueues, change: dict[str, str], matches: bool
) -> None:
    events = client("events", given.tests)
    rule = events.describe_rule(Name="check-deployment-failed")
    service = change.pop("service", given.terraform["service_arn"])
    event = FAILED | {"resources": [service], "detail": {**FAILED["detail"], **change}}  # type: ignore[dict-item]

    assert rule["State"] == "ENABLED"
    assert events.test_event_pattern(EventPattern=rule["EventPattern"], Event=json.dumps(event))["Result"] is matches


async def test_a_failed_deployment_pages_with_its_reason(given: GivenQueues) -> None:
    """The emulator knows no index in a path, so that the service, which is the first of the resources, is missing here."""
    events, sqs = client("events", given.tests), client("sqs", given.tests)
    [target] = events.list_targets_by_rule(Rule="check-deployment-failed")["Targets"]
    assert target["Arn"] == given.terraform["topics"]["page"]
    ear, subscription = subscribe(given, target["Arn"])
    rule = f"check-{uuid4().hex[:12]}"
    events.put_rule(Name=rule, EventPattern=json.dumps({"source": [rule]}))
    events.put_targets(Rule=rule, Targets=[target])
    try:
        entry = {"Source": rule, "DetailType": FAILED["detail-type"], "Detail": json.dumps(FAILED["detail"])}
        events.put_events(Entries=[{**entry, "Resources": [given.terraform["service_arn"]]}])

        def heard() -> list[str]:
            messages = sqs.receive_message(QueueUrl=ear, WaitTimeSeconds=1).get("Messages", [])
            return [json.loads(message["Body"])["Message"] for message in messages]

        [text] = await until(heard)
        assert text.startswith('"A deployment of ')
        assert "task failed to start. Owner: operators. Runbook: docs/runbooks/bad-deploy.md" in text
    finally:
        events.remove_targets(Rule=rule, Ids=[target["Id"]])
        events.delete_rule(Name=rule)
        client("sns", given.tests).unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=ear)
