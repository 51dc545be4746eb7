"""Every process does its work under its role, where what no policy allows is refused; and nobody can do what is another's."""

import json
import subprocess
import sys
from typing import Any
from uuid import uuid4

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.conftest import ROOT, sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, process_environment
from tests.infra.emulator import client
from tests.support.given_queues import GivenQueues, empty
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.ports import choose_free
from turnstile.ops.terminal.exit_codes import ExitCode

API_KEY = "a-key-for-the-check"
FAMILY = "tests.e2e.family_handlers:act"


def operate(product: Product, *words: str, code: ExitCode = ExitCode.OK) -> str:
    """An operator's command, in a process with the operator's role; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "turnstile.ops.main", *words],
        env=process_environment(product.settings, words[0]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_api_worker_relay_and_operator_do_their_work_under_their_roles(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    port = choose_free()
    keys = {"TURNSTILE_API_KEYS": f"t:{API_KEY}", "TURNSTILE_API_PORT": str(port)}
    api = start_worker("api", **keys)
    worker = start_worker("worker", TURNSTILE_RELAY="false")
    relay = start_worker("relay")
    url = f"http://127.0.0.1:{port}/v1/sessions/s/turns"
    headers = {"Authorization": f"Bearer {API_KEY}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as caller:

        async def api_is_up() -> bool:
            try:
                return (await caller.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await until(api_is_up, within=90)
        # The second is longer than a heartbeat, so that its message is extended; the third is sent again by the relay.
        orders = [{"do": "echo"}, {"do": "sleep", "seconds": 2.0}, {"do": "flaky", "times": 1}, {"do": "bug"}]
        for order in orders:
            answer = await caller.post(url, json={"input": order})
            assert answer.status_code == 202, answer.text

    await product.ended(within=90)
    address = await product.queues.find(product.settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.url, MessageBody="nobody understands this", **_group(address.url))

    async def both_are_on_the_dlq() -> bool:
        return await product.queues.count(product.settings.queue, dead=True) == 2

    await until(both_are_on_the_dlq, within=60)
    # Looks at the messages on the DLQ and gives them back.
    assert "malformed" in operate(product, "dlq", "list", "--messages")
    await product.fetch_nothing("UPDATE messages SET content = '{\"do\": \"echo\"}' WHERE role = 'user'")
    operate(product, "redrive", "--yes")
    await product.all_in("SUCCEEDED", within=60)
    assert "dead-letters-unexplained" in operate(product, "doctor", code=ExitCode.FINDINGS)
    for process in (api, worker, relay):
        assert not [line for line in process.lines() if "AccessDenied" in json.dumps(line)]


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_workers_children_go_to_another_queue(
    given: GivenQueues, product: Product, start_worker: StartWorker, stack: Stack, fifo: bool
) -> None:
    other = given.standard if fifo else given.fifo
    for url in given.urls:
        empty(sqs_client(stack), url)
    start_worker(TURNSTILE_QUEUES=json.dumps([given.standard, given.fifo]), TURNSTILE_HANDLER=FAMILY)

    await product.submit({"do": "fan out", "orders": [{"do": "echo"}], "options": {"queue": other["name"]}})

    def waiting() -> int:
        count = "ApproximateNumberOfMessages"
        found = sqs_client(stack).get_queue_attributes(QueueUrl=other["sqs"], AttributeNames=[count])
        return int(found["Attributes"][count])

    assert await until(waiting) == 1


def call(given: GivenQueues, role: str, action: str, url: str) -> Any:
    """One call to SQS under a role."""
    sqs = client("sqs", given.processes[role])
    match action:
        case "SendMessage":
            return sqs.send_message(QueueUrl=url, MessageBody="x", **_group(url))
        case "ReceiveMessage":
            return sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
        case "PurgeQueue":
            return sqs.purge_queue(QueueUrl=url)
        case "DeleteQueue":
            return sqs.delete_queue(QueueUrl=url)
        case "SetQueueAttributes":
            return sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
        case "GetQueueAttributes":
            return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    raise ValueError(action)


def _group(url: str) -> dict[str, str]:
    return {"MessageGroupId": "g", "MessageDeduplicationId": uuid4().hex} if url.endswith(".fifo") else {}


ROLES = ("api", "relay", "operator", "worker-turns", "worker-strict", "function")


@pytest.mark.parametrize(
    ("role", "action", "queue"),
    [
        ("api", "ReceiveMessage", "turns"),
        ("api", "SendMessage", "turns-dlq"),
        ("relay", "ReceiveMessage", "turns"),
        ("relay", "GetQueueAttributes", "turns"),
        ("operator", "ReceiveMessage", "turns"),
        ("operator", "SendMessage", "turns-dlq"),
        ("worker-turns", "ReceiveMessage", "strict"),
        ("worker-turns", "ReceiveMessage", "turns-dlq"),
        ("worker-turns", "SendMessage", "strict-dlq"),
        ("worker-strict", "ReceiveMessage", "turns"),
        ("worker-turns", "GetQueueAttributes", "turns"),
        ("function", "SendMessage", "strict-dlq"),
        ("function", "ReceiveMessage", "strict"),
        ("function", "ReceiveMessage", "turns-dlq"),
        *[(role, action, "turns") for role in ROLES for action in ("PurgeQueue", "DeleteQueue", "SetQueueAttributes")],
    ],
)
def test_what_is_not_its_own_is_refused(given: GivenQueues, role: str, action: str, queue: str) -> None:
    declared = {one["name"]: one for one in (given.standard, given.fifo)}[queue.removesuffix("-dlq")]

    with pytest.raises(ClientError) as refused:
        call(given, role, action, declared["dlq" if queue.endswith("-dlq") else "sqs"])

    assert refused.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}


def test_the_refusals_are_the_roles_and_not_the_stages(given: GivenQueues) -> None:
    assert "MessageId" in call(given, "api", "SendMessage", given.fifo["sqs"])
    assert "Attributes" in call(given, "operator", "GetQueueAttributes", given.standard["sqs"])
    assert "Attributes" in call(given, "relay", "GetQueueAttributes", given.standard["dlq"])
