"""Queues that the whole run was given, in place of a pair that each test makes: those that Terraform made (tests/infra).

TURNSTILE_TEST_QUEUES names a JSON file. The tests then share the queues, so they run one after the other, and each finds
them empty.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "TURNSTILE_TEST_QUEUES"
COMMAND = "TURNSTILE_TEST_COMMAND"
"""In a process of the product: which command it is, for whoever records its calls."""


@dataclass(frozen=True, slots=True)
class GivenQueues:
    """What the file says."""

    standard: dict[str, Any]
    """The declaration of a standard queue, as in TURNSTILE_QUEUES; SQS names are URLs."""
    fifo: dict[str, Any]
    tests: dict[str, str]
    """Environment of the tests themselves, which look from outside: endpoint and credentials."""
    processes: dict[str, dict[str, str]]
    """Environment of the product's processes, by `api`, `relay`, `operator` and `worker-<queue>`: each with its role."""
    terraform: dict[str, Any]
    """Terraform's outputs."""

    def environment(self, command: str, queue: str) -> dict[str, str]:
        """What a process of the product runs under."""
        role = f"worker-{queue}" if command == "worker" else command
        return self.processes.get(role, self.processes["operator"]) | {COMMAND: command}


def find_given_queues() -> GivenQueues | None:
    """The queues that this run was given, if it was."""
    path = os.environ.get(VARIABLE)
    return GivenQueues(**json.loads(Path(path).read_text())) if path else None
