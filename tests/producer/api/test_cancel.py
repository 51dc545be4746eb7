"""Cancel over HTTP: its response, its effect, and the wake-up of the next turn."""

from datetime import UTC, datetime, timedelta

from httpx import AsyncClient

from tests.producer.api.calls import choose_id
from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.claim import claim
from turnstile.turn.wire_format import decode

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


async def test_a_turn_is_canceled_by_a_cancel_before_its_submit(
    client: AsyncClient, queues: MessageQueues, queue: QueueSettings
) -> None:
    turn = choose_id()
    answer = await client.post(f"/v1/turns/{turn}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"id": turn, "status": None, "cancel_requested": True})
    assert (await client.get(f"/v1/turns/{turn}")).status_code == 404

    submitted = await client.post(PATH, json={"input": "x", "turn_id": turn})
    assert await queues.count(queue.name) == 0

    assert (submitted.status_code, submitted.json()["id"]) == (202, turn)
    record = (await client.get(f"/v1/turns/{turn}")).json()
    assert (record["status"], record["cancel_reason"], record["seq"]) == ("CANCELED", "user", None)


async def test_a_session_cancel_cancels_all_open_turns(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    bodies = [{"input": "x"}, {"input": "y"}, {"input": "z", "execute_at": later}]
    turns = [(await client.post(PATH, json=body)).json()["id"] for body in bodies]
    await claim(database, make_terms(settings), [make_claim(tenant_id="acme")])

    answer = await client.post("/v1/sessions/s/cancel")

    assert (answer.status_code, answer.json()) == (202, {"session_id": "s", "canceled": 2, "stopping": 1})
    records = [(await client.get(f"/v1/turns/{turn}")).json() for turn in turns]
    assert [record["status"] for record in records] == ["RUNNING", "CANCELED", "CANCELED"]
    assert {record["cancel_reason"] for record in records} == {"user"}
    [event] = await database.fetch("SELECT actor, tenant_id, counts FROM audit", {})
    assert event == {"actor": "key settings:1", "tenant_id": "acme", "counts": {"turns": 3}}
