"""Cancel over HTTP: what it meets, what it answers, and whom it wakes."""

import pytest
from httpx import AsyncClient

from tests.factories import make_claim, make_terms
from turns.claim import claim
from turns.database import Database
from turns.message import decode
from turns.message_queue import MessageQueues
from turns.settings import QueueSettings, Settings

pytestmark = pytest.mark.stack

PATH = "/v1/sessions/s/turns"


async def test_a_waiting_turn_is_canceled_at_once_and_the_next_is_woken(
    client: AsyncClient, queues: MessageQueues, queue: QueueSettings
) -> None:
    first, second = [(await client.post(PATH, json={"input": "x"})).json()["id"] for _ in range(2)]
    sent = await queues.receive(queue.name, 10)
    await queues.delete(queue.name, sent)

    answer = await client.post(f"/v1/turns/{first}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"id": first, "status": "CANCELED", "cancel_requested": True})
    (woken,) = await queues.receive(queue.name, 10)
    assert str(decode(woken.body).turn_id) == second

    again = await client.post(f"/v1/turns/{first}/cancel")
    assert (again.status_code, again.json()) == (202, {"id": first, "status": "CANCELED", "cancel_requested": False})
    record = (await client.get(f"/v1/turns/{first}")).json()
    assert (record["status"], record["cancel_reason"]) == ("CANCELED", "user")
    assert record["finished_at"] is not None


async def test_a_running_turn_is_asked_to_stop(client: AsyncClient, database: Database, settings: Settings) -> None:
    turn = (await client.post(PATH, json={"input": "x"})).json()["id"]
    await claim(database, make_terms(settings), [make_claim(tenant_id="acme")])
    answer = await client.post(f"/v1/turns/{turn}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"id": turn, "status": "RUNNING", "cancel_requested": True})
    assert (await client.get(f"/v1/turns/{turn}")).json()["cancel_requested_at"] is not None


@pytest.mark.parametrize("turn", ["2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e", "nonsense"])
async def test_an_unknown_turn(client: AsyncClient, turn: str) -> None:
    answer = await client.post(f"/v1/turns/{turn}/cancel")
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")
