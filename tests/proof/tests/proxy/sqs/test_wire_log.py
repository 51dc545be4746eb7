"""`wire.jsonl`: what SQS did and what its clients were answered, message by message."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.proof.checker.evidence import WireCall
from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.sqs.conftest import receive, wake_up
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues


@pytest.fixture
def wire(tmp_path: Path) -> Path:
    return tmp_path / "wire.jsonl"


async def read(wire: Path, many: int) -> list[WireCall]:
    """The log, once it has so many lines."""

    def lines() -> list[str]:
        return wire.read_text().splitlines() if wire.exists() else []

    await until(lambda: len(lines()) >= many)
    found = [WireCall(**json.loads(line)) for line in lines()]
    assert len(found) == many
    return found


async def test_the_whole_way_of_a_message_is_noted(
    behind: MessageQueues, queue: QueueSettings, wire: Path, proxy: ProxyControl
) -> None:
    sent = wake_up("chat-1")
    await behind.send(queue.name, [sent])
    received = await receive(behind, queue.name)
    await behind.extend(await behind.find(queue.name), received)
    await behind.delete(queue.name, received)

    calls = await read(wire, 4)

    assert [call.action for call in calls] == ["send", "receive", "visibility", "delete"]
    assert {call.message_id for call in calls} == {received[0].message_id}
    assert {call.turn_id for call in calls} == {str(sent.wake_up.turn_id)}
    assert {call.session for call in calls} == {"chat-1"}
    assert {(call.queue, call.dead) for call in calls} == {(queue.sqs, False)}
    assert all(call.effective and call.answered and call.body is None for call in calls)
    assert [call.at for call in calls] == sorted(call.at for call in calls)


async def test_of_a_malformed_message_the_body_is_kept(
    plain: Any, url: str, queue: QueueSettings, behind: MessageQueues, wire: Path, proxy: ProxyControl
) -> None:
    body = '{"v": 99, "turn_id": "x"}'
    plain.send_message(QueueUrl=url, MessageBody=body)
    received = await receive(behind, queue.name)
    await behind.delete(queue.name, received)

    calls = await read(wire, 3)

    assert [(call.turn_id, call.session, call.body) for call in calls] == [(None, None, body)] * 3
    assert {call.message_id for call in calls} == {received[0].message_id}


@pytest.mark.parametrize(
    ("toxic", "effective", "answered"),
    [
        ("error", False, True),
        ("throttle", False, True),
        ("partial_failure", False, True),
        ("request_lost", False, False),
        ("answer_lost", True, False),
    ],
)
async def test_it_is_noted_what_was_done_and_what_was_told(
    behind: MessageQueues,
    queue: QueueSettings,
    wire: Path,
    proxy: ProxyControl,
    toxic: str,
    effective: bool,
    answered: bool,
) -> None:
    await behind.find(queue.name)
    await proxy.set("sqs", "worker-1", toxic, count=1)

    await behind.send(queue.name, [wake_up()])

    first = (await read(wire, 1 if toxic == "partial_failure" else 2))[0]
    assert (first.effective, first.answered) == (effective, answered)


async def test_a_delete_that_a_stale_handle_made_vain_is_noted_as_vain(
    behind: MessageQueues, queue: QueueSettings, wire: Path, proxy: ProxyControl
) -> None:
    await behind.send(queue.name, [wake_up()])
    first = await receive(behind, queue.name)
    await behind.delete(queue.name, first)
    await behind.delete(queue.name, first)

    calls = await read(wire, 4)

    assert [call.effective for call in calls if call.action == "delete"] == [True, False]
    assert {call.message_id for call in calls} == {first[0].message_id}


async def test_a_receive_whose_client_was_killed_meanwhile_is_noted_as_not_told(
    plain: Any, behind: MessageQueues, queue: QueueSettings, queues: MessageQueues, wire: Path, proxy: ProxyControl
) -> None:
    address = await behind.find(queue.name)
    _, writer = await asyncio.open_connection(*address.url.split("/")[2].split(":"))
    body = json.dumps({"QueueUrl": address.url, "WaitTimeSeconds": 10})
    head = f"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {len(body)}\r\n"
    authorization = (
        "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=x"
    )
    requests = (await proxy.counts())["sqs/worker-1"]["requests"]
    writer.write(f"{head}Authorization: {authorization}\r\n\r\n{body}".encode())

    async def arrived() -> bool:
        return (await proxy.counts())["sqs/worker-1"]["requests"] > requests

    await until(arrived)
    writer.transport.abort()
    await queues.send(queue.name, [wake_up()])

    (call,) = await read(wire, 1)
    assert (call.action, call.effective, call.answered) == ("receive", True, False)
