"""A listener of an alarm's topic, and the alarm's state."""

import json
from typing import Any
from uuid import uuid4

from tests.infra.emulator import client
from tests.support.given_queues import GivenQueues


def alarms_heard(sqs: Any, ear: str, state: str = "ALARM") -> list[str]:
    """The alarms of which a listening queue has just received that they are in this state now."""
    messages = sqs.receive_message(QueueUrl=ear, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
    changes = [json.loads(json.loads(message["Body"])["Message"]) for message in messages]
    return [one["AlarmName"] for one in changes if one["NewStateValue"] == state]


def state(cloudwatch: Any, alarm: dict[str, Any]) -> str:
    """The alarm's state now."""
    [found] = cloudwatch.describe_alarms(AlarmNames=[alarm["AlarmName"]])["MetricAlarms"]
    return str(found["StateValue"])


def subscribe(given: GivenQueues, topic: str) -> tuple[str, str]:
    """A queue that hears what a topic says: its URL, and the subscription."""
    sqs = client("sqs", given.tests)
    url = sqs.create_queue(QueueName=f"ear-{uuid4().hex[:12]}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    statement = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": arn}]}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    answer = client("sns", given.tests).subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True
    )
    return url, str(answer["SubscriptionArn"])
