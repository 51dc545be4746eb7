"""Each tenant's webhooks are signed with secrets of its own, and a rotation loses none."""

import json

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.relay.webhooks.conftest import SECRET
from tests.relay.webhooks.receiver import Got, Receiver
from tests.statements.calls import SUCCESS
from tests.support.claims import settle_one
from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.relay.webhooks.delivery import WebhookDelivery
from turnstile.relay.webhooks.post import WebhookPost
from turnstile.statements.claim import claim
from turnstile.statements.submit import submit
from turnstile.statements.webhook_secrets import revoke_secret, rotate_secret
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.webhooks.signature import derive_secret

SICK = b"HTTP/1.1 503 Away\r\n\r\n"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def delivery(of_relay: Database, settings: Settings, post: WebhookPost) -> WebhookDelivery:
    return WebhookDelivery(of_relay, settings, post)


async def end_turn(database: Database, settings: Settings, tenant_id: str = "t") -> None:
    """A turn with a webhook ends."""
    url = f"https://{settings.webhook_hosts[0]}/done"
    await submit(database, [make_submission("turns", "s", tenant_id=tenant_id, webhook_url=url)], resend_seconds=60)
    (turn,) = await claim(database, make_terms(settings), [make_claim("s", tenant_id)])
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, SUCCESS)


async def deliver(delivery: WebhookDelivery) -> None:
    await delivery.round()
    await delivery.settled()


def is_verified(got: Got, tenant_id: str, number: int) -> bool:
    """Whether a receiver that has this secret takes it."""
    try:
        Webhook(derive_secret(SECRET, tenant_id, number)).verify(got.body, got.headers)
    except WebhookVerificationError:
        return False
    return True


async def test_each_tenant_has_a_secret_of_its_own(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    for tenant_id in ("t", "u"):
        await end_turn(database, settings, tenant_id)
        await deliver(delivery)

    of_t, of_u = receiver.got

    assert [is_verified(got, tenant, 1) for got in (of_t, of_u) for tenant in ("t", "u")] == [True, False, False, True]
    assert json.loads(of_u.body)["data"]["tenant_id"] == "u"


async def test_the_secret_of_the_settings_signs_nothing(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    await end_turn(database, settings)
    await deliver(delivery)

    [got] = receiver.got
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(got.body, got.headers)


async def test_a_rotation_between_two_tries_is_accepted_by_old_and_new_receivers(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    receiver.answers = [SICK]
    await end_turn(database, settings)
    await deliver(delivery)
    assert await rotate_secret(database, "t", overlap_seconds=3600, by="ada") == 2
    await database.fetch("UPDATE webhooks SET due_at = now()", {})
    await deliver(delivery)

    before, after = receiver.got

    assert [is_verified(before, "t", number) for number in (1, 2)] == [True, False]
    assert [is_verified(after, "t", number) for number in (1, 2)] == [True, True]
    assert before.headers["webhook-id"] == after.headers["webhook-id"]


async def test_a_revoked_secret_and_one_whose_overlap_is_over_sign_no_more(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    for _ in range(2):
        await rotate_secret(database, "t", overlap_seconds=3600, by="ada")
    assert await revoke_secret(database, "t", 2, by="ada")
    await database.fetch("UPDATE webhook_secrets SET signs_until = now() WHERE number = 1", {})
    await end_turn(database, settings)
    await deliver(delivery)

    [got] = receiver.got

    assert [is_verified(got, "t", number) for number in (1, 2, 3)] == [False, False, True]


async def test_another_tenants_rotation_changes_nothing(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    await rotate_secret(database, "u", overlap_seconds=3600, by="ada")
    await end_turn(database, settings)
    await deliver(delivery)

    [got] = receiver.got
    assert got.headers["webhook-signature"].count("v1,") == 1
    assert is_verified(got, "t", 1)
