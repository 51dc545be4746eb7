"""The emulator as a process of its own, so that its CPU is accounted apart, and a client for the harness."""

import http.client
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.accounting import Tree
from bench.launch import launch
from turnstile.dev.stack.ports import LOOPBACK, choose_free

BATCH = 10
START_SECONDS = 20.0

Entry = dict[str, Any]
"""A message as SendMessage takes it."""


@dataclass(frozen=True, slots=True)
class Counts:
    calls: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    left: int = 0
    first_receive_at: float | None = None


class EmulatedSqs:
    """One emulator. Not for several threads at a time."""

    def __init__(self, tree: Tree, port: int) -> None:
        self.tree = tree
        self.address = f"http://{LOOPBACK}:{port}"
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)

    def create_queue(self, name: str, visibility_seconds: int) -> str:
        """Its URL."""
        attributes = {"VisibilityTimeout": str(visibility_seconds)}
        return str(self._call("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"])

    def send(self, queue_url: str, entry: Entry) -> None:
        self._call("SendMessage", QueueUrl=queue_url, **entry)

    def send_all(self, queue_url: str, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), BATCH):
            batch = [{"Id": str(n), **entry} for n, entry in enumerate(entries[start : start + BATCH])]
            self._call("SendMessageBatch", QueueUrl=queue_url, Entries=batch)

    def counts(self, queue: str) -> Counts:
        """The counts of one queue; all zero if it does not exist."""
        self._connection.request("GET", "/_counts")
        found = json.loads(self._connection.getresponse().read()).get(queue)
        return Counts(**found) if found else Counts()

    def _call(self, action: str, **fields: Any) -> Any:
        self._connection.request("POST", "/", json.dumps(fields), {"X-Amz-Target": f"AmazonSQS.{action}"})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"the emulator refused {action}: {body.decode()}")
        return json.loads(body)

    def answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            self._call("ListQueues")
            return True
        self._connection.close()
        return False


@contextmanager
def start_emulator(log: Path) -> Iterator[EmulatedSqs]:
    port = choose_free()
    command = [sys.executable, "-m", "bench.emulator", "--port", str(port)]
    with launch("the emulator", command, log, Path(__file__).parents[1]) as launched:
        emulator = EmulatedSqs(launched.tree, port)
        launched.require("up", emulator.answers, START_SECONDS)
        yield emulator
