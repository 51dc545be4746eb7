"""Queues that the whole run was given, in place of a pair that each test makes: those that Terraform made (tests/infra), or
queues at AWS (`--stack=aws`).

TURNSTILE_TEST_QUEUES names a JSON file. The tests then share the queues, so they run one after the other, and each finds
them empty.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.probes import wait_until

VARIABLE = "TURNSTILE_TEST_QUEUES"
ROLE = "TURNSTILE_TEST_ROLE"
"""In a process of the product: the role that it runs under, for the record of its calls."""
COUNTS = [
    "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
]  # fmt: skip

LONGEST_RECEIVE_SECONDS = 1
"""The long poll of the tests' workers. No test has a longer one."""

LONGEST_IN_FLIGHT_SECONDS = 150.0
"""No test's visibility timeout may be longer: what a killed worker had in its hands is seen again after it."""


@dataclass(frozen=True, slots=True)
class GivenQueues:
    """What the file says."""

    standard: dict[str, Any]
    """The declaration of a standard queue, as in TURNSTILE_QUEUES; SQS names are URLs."""
    fifo: dict[str, Any]
    tests: dict[str, str] = field(default_factory=dict)
    """Environment of the tests themselves, which look from outside: endpoint and credentials. Empty: as the stack
    says."""
    processes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Environment of processes by their role: `api`, `relay`, `operator`, `function` and `worker-<queue>`."""
    terraform: dict[str, Any] = field(default_factory=dict)
    """Terraform's outputs."""

    def environment(self, command: str, queue: str) -> dict[str, str]:
        role = f"worker-{queue}" if command == "worker" else command
        if role not in self.processes:
            # `redrive`, `dlq`, `doctor` …
            role = "operator"
        return self.processes.get(role, {}) | {ROLE: role}

    @property
    def urls(self) -> list[str]:
        return [declared[name] for declared in (self.standard, self.fifo) for name in ("sqs", "dlq")]


def empty(client: Any, url: str) -> None:
    """Takes out what is in a queue, also what a killed worker had in its hands."""
    given = find_given_queues()
    if given is not None and given.terraform:
        # An emulator's. AWS allows one purge a minute, and there what is in flight is waited for.
        client.purge_queue(QueueUrl=url)

    def is_empty() -> bool:
        # SQS does not notice that a worker was killed: its last receive goes on, and would hide a message of the next test. Once
        # one of the same length has found nothing, that one has ended.
        wait = {"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": LONGEST_RECEIVE_SECONDS}
        while found := client.receive_message(**wait).get("Messages"):
            entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(found)]
            client.delete_message_batch(QueueUrl=url, Entries=entries)
        counts = client.get_queue_attributes(QueueUrl=url, AttributeNames=COUNTS)["Attributes"]
        return not any(int(counts[name]) for name in COUNTS)

    wait_until(is_empty, within=LONGEST_IN_FLIGHT_SECONDS, every=0.5)


def find_given_queues() -> GivenQueues | None:
    """The queues that this run was given, if it was."""
    path = os.environ.get(VARIABLE)
    return GivenQueues(**json.loads(Path(path).read_text())) if path else None
