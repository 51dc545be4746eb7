"""Completion webhooks: owed with the end of a turn, however it ends, and delivered until they arrive."""

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from standardwebhooks import Webhook
from structlog.testing import capture_logs

from tests.relay.webhooks.conftest import SECRET
from tests.relay.webhooks.receiver import HOST, Receiver
from tests.statements.calls import FAILURE, RETRY, SUCCESS
from tests.support.claims import expire_leases, settle_one
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.metric_readings import rising
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.relay.webhooks import delivery as webhook_delivery
from turnstile.relay.webhooks.delivery import WebhookDelivery
from turnstile.relay.webhooks.post import WebhookPost
from turnstile.statements.cancel import CancelReason, cancel, cancel_ahead
from turnstile.statements.claim import EndedAtClaim, claim
from turnstile.statements.revive import revive
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import Settlement
from turnstile.webhooks.signature import derive_secret

OK = b"HTTP/1.1 200 OK\r\n\r\n"
SICK = b"HTTP/1.1 503 Away\r\n\r\n"
GONE = b"HTTP/1.1 410 Gone\r\n\r\n"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def delivery(of_relay: Database, settings: Settings, post: WebhookPost) -> WebhookDelivery:
    return WebhookDelivery(of_relay, settings, post)


def url_of(settings: Settings) -> str:
    return f"https://{settings.webhook_hosts[0]}/done?token=t0ken"


async def submitted(database: Database, settings: Settings, session_id: str = "s", **fields: Any) -> UUID:
    wanted = make_submission("turns", session_id, webhook_url=url_of(settings), **fields)
    await submit(database, [wanted], resend_seconds=60)
    return wanted.turn_id


async def claimed(database: Database, settings: Settings, session_id: str = "s") -> ClaimedTurn:
    (turn,) = await claim(database, make_terms(settings), [make_claim(session_id)])
    assert isinstance(turn, ClaimedTurn)
    return turn


async def ended(
    database: Database, settings: Settings, settlement: Settlement = SUCCESS, session_id: str = "s", **fields: Any
) -> UUID:
    turn_id = await submitted(database, settings, session_id, **fields)
    await settle_one(database, settings, await claimed(database, settings, session_id), settlement)
    return turn_id


async def owed(database: Database) -> list[dict[str, Any]]:
    return [dict(row) for row in await database.fetch("SELECT * FROM webhooks ORDER BY created_at", {})]


async def make_due(database: Database) -> None:
    await database.fetch("UPDATE webhooks SET due_at = now() WHERE due_at IS NOT NULL", {})


async def deliver(delivery: WebhookDelivery) -> None:
    await delivery.round()
    await delivery.settled()


# --- owed


@pytest.mark.parametrize(("settlement", "status"), [(SUCCESS, "SUCCEEDED"), (FAILURE, "FAILED")])
async def test_a_settled_turn_owes_its_webhook(
    database: Database, settings: Settings, settlement: Settlement, status: str
) -> None:
    turn_id = await ended(database, settings, settlement, metadata={"case": 7})

    [row] = await owed(database)
    assert (row["turn_id"], row["generation"], row["url"]) == (turn_id, 1, url_of(settings))
    assert row["due_at"] is not None
    assert (row["event"]["status"], row["event"]["metadata"], row["event"]["attempt"]) == (status, {"case": 7}, 1)


async def test_an_open_turn_and_one_without_an_address_owe_no_webhook(database: Database, settings: Settings) -> None:
    await ended(database, settings, RETRY)
    await submit(database, [make_submission("turns", "another")], resend_seconds=60)
    await settle_one(database, settings, await claimed(database, settings, "another"), SUCCESS)

    assert await owed(database) == []


@pytest.mark.parametrize("before_the_submit", [False, True])
async def test_a_cancelled_turn_owes_its_webhook(
    database: Database, settings: Settings, before_the_submit: bool
) -> None:
    turn_id = uuid4()
    if before_the_submit:
        await cancel_ahead(database, "t", turn_id, CancelReason.USER)
    await submitted(database, settings, turn_id=turn_id, chosen=True)
    if not before_the_submit:
        await cancel(database, "t", turn_id, CancelReason.USER)

    [row] = await owed(database)
    event = row["event"]
    assert (row["turn_id"], event["status"], event["cancel_reason"], event["started_at"]) == (
        turn_id,
        "CANCELED",
        "user",
        None,
    )


async def test_a_crash_loop_that_halts_its_session_owes_its_webhook(database: Database, settings: Settings) -> None:
    turn_id = await submitted(database, settings)
    await claimed(database, settings)
    await expire_leases(database)
    terms = make_terms(settings, "worker-b", max_crashes=1, halt=True)

    async def taken_over() -> bool:
        # Not before the server has been up for a lease.
        (found,) = await claim(database, terms, [make_claim()])
        return isinstance(found, EndedAtClaim)

    await until(taken_over)
    [row] = await owed(database)
    assert (row["turn_id"], row["event"]["error_class"]) == (turn_id, "crash_loop")


async def test_a_redriven_turn_owes_one_for_each_end(database: Database, settings: Settings) -> None:
    turn_id = await ended(database, settings, FAILURE)
    await revive(database, [(turn_id, 1)], [start_trace(1)], expires_in_seconds=[60], resend_seconds=60)
    await settle_one(database, settings, await claimed(database, settings), SUCCESS)

    rows = await owed(database)
    assert [(row["generation"], row["event"]["status"]) for row in rows] == [(1, "FAILED"), (2, "SUCCEEDED")]


async def test_the_event_has_no_messages_and_no_error_texts(database: Database, settings: Settings) -> None:
    await ended(database, settings, FAILURE, content="a secret")

    [row] = await owed(database)
    assert "secret" not in json.dumps(row["event"])
    assert "boom" not in json.dumps(row["event"])


# --- delivered


async def test_a_webhook_is_posted_signed_and_noted(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    turn_id = await ended(database, settings)

    await deliver(delivery)

    [got] = receiver.got
    body = json.loads(got.body)
    assert got.line == "POST /done?token=t0ken HTTP/1.1"
    assert (body["type"], body["data"]["id"], body["data"]["session_id"]) == ("turn.succeeded", str(turn_id), "s")
    assert body["timestamp"] == body["data"]["finished_at"]
    Webhook(derive_secret(SECRET, "t", 1)).verify(got.body, got.headers)
    [row] = await owed(database)
    assert (row["tries"], row["due_at"], row["delivered_at"] is None, row["error"]) == (1, None, False, None)
    await deliver(delivery)
    assert len(receiver.got) == 1


async def test_a_refused_post_is_repeated_with_the_same_id_and_body(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    receiver.answers = [SICK, OK]
    await ended(database, settings)
    await deliver(delivery)
    [row] = await owed(database)
    assert (row["tries"], row["error"], row["delivered_at"]) == (1, "status 503", None)
    assert row["due_at"] is not None

    await make_due(database)
    await deliver(delivery)

    first, second = receiver.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    [row] = await owed(database)
    assert (row["tries"], row["error"], row["due_at"]) == (2, None, None)


@pytest.mark.parametrize(
    ("answer", "tries", "error"),
    [
        (b"HTTP/1.1 410 Gone\r\n\r\n", 1, "status 410"),
        (SICK, webhook_delivery.MAX_TRIES, "status 503"),
        (None, webhook_delivery.MAX_TRIES + 1, "its deliverers were lost"),
    ],
    ids=["410", "the last try", "more tries than results"],
)
async def test_a_webhook_is_given_up_with_an_error_line(
    database: Database,
    settings: Settings,
    delivery: WebhookDelivery,
    receiver: Receiver,
    answer: bytes | None,
    tries: int,
    error: str,
) -> None:
    receiver.answers = [answer]
    await ended(database, settings)
    await database.fetch("UPDATE webhooks SET tries = %(n)s", {"n": tries - 1})

    with capture_logs() as lines:
        await deliver(delivery)

    [row] = await owed(database)
    assert (row["tries"], row["due_at"], row["delivered_at"], row["error"]) == (tries, None, None, error)
    assert len(receiver.got) == (answer is not None)
    [line] = [line for line in lines if line["event"] == "webhook.given_up"]
    assert line["log_level"] == "error"
    assert "t0ken" not in str(lines)


async def test_a_refused_row_delays_no_other_webhook(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    turns = [await ended(database, settings, session_id=f"s-{number}") for number in range(3)]
    refused = turns[1]
    await database.fetch(f"ALTER TABLE webhooks ADD CONSTRAINT refused CHECK (turn_id <> '{refused}' OR tries = 0)", {})  # type: ignore[arg-type]

    with capture_logs() as lines:
        for _ in range(3):
            await deliver(delivery)

    assert {one["turn_id"] for one in await owed(database) if one["delivered_at"]} == {turns[0], turns[2]}
    failures = [line for line in lines if line["event"] == "relay.step_failed"]
    assert [(one["step"], one["error_class"], one["turn_id"], one["log_level"]) for one in failures] == [
        ("take_webhooks", "CheckViolation", str(refused), "error")
    ]


async def test_a_delivery_that_postgres_refuses_to_note_is_logged_as_an_error(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    turn_id = await ended(database, settings)
    await database.fetch("ALTER TABLE webhooks ADD CONSTRAINT refused CHECK (delivered_at IS NULL)", {})

    with capture_logs() as lines:
        await deliver(delivery)

    [line] = [line for line in lines if line["event"] == "relay.step_failed"]
    assert (line["step"], line["turn_id"]) == ("deliver_webhook", str(turn_id))


async def test_no_webhook_is_posted_to_a_host_that_is_no_longer_allowed(
    database: Database, of_relay: Database, settings: Settings, post: WebhookPost, receiver: Receiver
) -> None:
    await ended(database, settings)
    elsewhere = settings.model_copy(update={"webhook_hosts": (HOST,)})

    await deliver(WebhookDelivery(of_relay, elsewhere, post))

    [row] = await owed(database)
    assert (row["error"], receiver.connections) == ("host not allowed", 0)


async def test_where_webhooks_are_off_none_is_taken(
    database: Database, of_relay: Database, settings: Settings, post: WebhookPost
) -> None:
    await ended(database, settings)
    off = settings.model_copy(update={"webhook_hosts": ()})

    await deliver(WebhookDelivery(of_relay, off, post))

    [row] = await owed(database)
    assert row["tries"] == 0


async def test_concurrent_deliverers_post_each_webhook_once(
    database: Database, of_relay: Database, settings: Settings, post: WebhookPost, receiver: Receiver
) -> None:
    for number in range(8):
        await ended(database, settings, session_id=f"s{number}")
    both = [WebhookDelivery(of_relay, settings, post), WebhookDelivery(of_relay, settings, post)]

    await asyncio.gather(*(deliver(one) for one in both))

    assert len(receiver.got) == 8
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 8


async def test_the_loop_delivers_until_it_is_stopped(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    stopping = asyncio.Event()
    running = asyncio.create_task(delivery.run(stopping))
    await ended(database, settings)
    await until(lambda: receiver.got)
    await ended(database, settings, session_id="another")

    await until(lambda: len(receiver.got) == 2)
    stopping.set()
    await running


@pytest.mark.parametrize(("answer", "result"), [(OK, "delivered"), (SICK, "retried"), (GONE, "given_up")])
async def test_each_try_is_counted_by_its_result(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver, answer: bytes, result: str
) -> None:
    await ended(database, settings)
    receiver.answers = [answer]

    with rising("turnstile_webhooks_total", result=result):
        await deliver(delivery)
