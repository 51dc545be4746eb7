"""The chain from a malformed message to a subscriber, as one test: message, worker, DLQ, line, metric, alarm, topic.

Two links are carried by hand, because the emulator does not make them: it turns no log line and no queue depth into a metric,
and it evaluates no formula. So the test writes what Terraform's pattern counts in the worker's real log as the metric that
Terraform's filter names, and the emulator evaluates the alarm on it. The formula of `dlq-unexplained` is evaluated by the test
(tests/infra/metric_math.py), over the depth that SQS counts and the number in the relay's real line, and its verdict is set as
the alarm's state. Five minutes are not waited for: the formula is given five equal ones.
"""

from typing import Any

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.infra.alarm_listener import alarms_heard, state, subscribe
from tests.infra.emulator import client
from tests.infra.log_pattern import matches
from tests.infra.metric_math import Rule, evaluate
from tests.support.given_queues import GivenQueues
from tests.support.probes import until
from tests.support.stacks.stack import Stack

MINUTES = 5


async def test_a_malformed_message_reaches_who_listens_to_the_topic(
    given: GivenQueues, product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    queue = product.settings.queue
    cloudwatch, sqs = client("cloudwatch", given.tests), client("sqs", given.tests)
    address = await product.queues.find(queue)
    arrived, unexplained = (
        alarm_of(cloudwatch, f"check-{queue}-{name}") for name in ("message-malformed", "dlq-unexplained")
    )
    # The arrival goes to the topic `tell`. What nobody has dealt with pages, so that one message is not two pages.
    topics = given.terraform["topics"]
    (telling, of_tell), (paging, of_page) = (subscribe(given, topics[name]) for name in ("tell", "page"))
    try:
        for alarm, topic in ((arrived, "tell"), (unexplained, "page")):
            assert alarm["AlarmActions"] == [topics[topic]]
            cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="begin")

        # The message, and a real worker that can't read it.
        worker = start_worker()
        sqs_client(stack).send_message(QueueUrl=address.url, MessageBody="nobody understands this")
        depth = await until(lambda: visible(sqs_client(stack), address.dlq_url))

        # By its line: the log pattern counts it, and the alarm on the count fires.
        pattern = given.terraform["log_patterns"]["message_malformed"]
        lines = worker.log_path.read_text(errors="replace").splitlines()
        count = sum(matches(pattern, line) for line in lines)
        assert count >= 1
        datum = {"MetricName": f"{queue}.message_malformed", "Value": float(count)}
        cloudwatch.put_metric_data(Namespace=given.terraform["namespace"], MetricData=[datum])
        assert state(cloudwatch, arrived) == "ALARM"
        assert arrived["AlarmName"] in await until(lambda: alarms_heard(sqs, telling))

        # By the DLQ itself, until somebody has dealt with it: no failed turn explains the message.
        relay = start_worker("relay")
        attention = given.terraform["attention_patterns"][queue]
        letters = await until(lambda: [line["letters"] for line in relay.lines() if matches(attention, line)])
        measured = {"messages": (float(depth),) * MINUTES, "letters": (float(letters[-1]),) * MINUTES}
        assert fires(given, unexplained, measured)
        cloudwatch.set_alarm_state(AlarmName=unexplained["AlarmName"], StateValue="ALARM", StateReason="by its formula")
        assert unexplained["AlarmName"] in await until(lambda: alarms_heard(sqs, paging))

        # And after it was deleted, the formula rests.
        sqs_client(stack).purge_queue(QueueUrl=address.dlq_url)
        gone = float(visible(sqs_client(stack), address.dlq_url))
        assert not fires(given, unexplained, measured | {"messages": (gone,) * MINUTES})
    finally:
        for ear, subscription in ((telling, of_tell), (paging, of_page)):
            client("sns", given.tests).unsubscribe(SubscriptionArn=subscription)
            sqs.delete_queue(QueueUrl=ear)


def alarm_of(cloudwatch: Any, name: str) -> dict[str, Any]:
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return dict(alarm)


def fires(given: GivenQueues, alarm: dict[str, Any], measured: dict[str, tuple[float, ...]]) -> bool:
    """Whether the formula that Terraform applied judges so."""
    [applied] = [one for one in given.terraform["alarms"] if one["alarm_name"] == alarm["AlarmName"]]
    [formula] = [one["expression"] for one in applied["metric_query"] if one["return_data"]]
    rule = Rule(alarm["ComparisonOperator"], alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"])
    return rule.fires(evaluate(formula, measured))


def visible(sqs: Any, url: str) -> int:
    """As SQS counts approximately, and CloudWatch has it."""
    name = "ApproximateNumberOfMessages"
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])
