"""The queues are as the worker's settings say: one source for both (G12, G27)."""

import json
from typing import Any

import pytest

from tests.infra.emulator import client
from tests.support.given_queues import GivenQueues
from turnstile.config.config_file import load
from turnstile.config.queue_settings import QueueSettings

FOURTEEN_DAYS = 14 * 86_400


def attributes(given: GivenQueues, url: str) -> dict[str, Any]:
    """A queue's attributes, as SQS has them."""
    return dict(client("sqs", given.tests).get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])


def test_a_worker_takes_what_terraform_declares(given: GivenQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_QUEUES", json.dumps([given.standard, given.fifo]))

    settings = load(lease_seconds=30.0)

    assert [queue.name for queue in settings.queues] == ["turns", "strict"]


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_the_queue_is_as_its_declaration_says(given: GivenQueues, kind: str) -> None:
    declared = QueueSettings.model_validate(getattr(given, kind))

    main, dlq = attributes(given, declared.sqs), attributes(given, declared.dlq)

    assert float(main["VisibilityTimeout"]) == declared.visibility_seconds
    assert int(dlq["MessageRetentionPeriod"]) == FOURTEEN_DAYS
    assert json.loads(main["RedrivePolicy"]) == {"deadLetterTargetArn": dlq["QueueArn"], "maxReceiveCount": 1000}
    assert json.loads(dlq["RedriveAllowPolicy"])["sourceQueueArns"] == [main["QueueArn"]]
    assert ("FifoQueue" in main, "FifoQueue" in dlq) == (kind == "fifo", kind == "fifo")


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_both_queues_refuse_plain_text(given: GivenQueues, kind: str) -> None:
    declared = getattr(given, kind)

    for url in (declared["sqs"], declared["dlq"]):
        found = attributes(given, url)
        [statement] = json.loads(found["Policy"])["Statement"]
        assert (statement["Effect"], statement["Action"]) == ("Deny", "sqs:*")
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert statement["Resource"] == found["QueueArn"]
