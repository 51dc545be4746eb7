"""A round of webhooks or a post that is cancelled, at whichever await, gives back its place and its socket."""

import asyncio

import psutil
import pytest

from tests.relay.webhooks.receiver import HOST, Receiver
from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.webhooks import delivery as webhook_delivery
from turnstile.relay.webhooks.delivery import WebhookDelivery
from turnstile.relay.webhooks.post import WebhookPost
from turnstile.webhooks.webhook_url import WebhookTarget


async def owe(database: Database, port: int) -> None:
    await database.fetch(
        "INSERT INTO webhooks (turn_id, generation, tenant_id, url, event, due_at)"
        ' VALUES (gen_random_uuid(), 1, \'t\', %(url)s, \'{"status": "FAILED", "finished_at": null}\', now())',
        {"url": f"https://{HOST}:{port}/done"},
    )


@pytest.mark.parametrize("how", Cancel)
async def test_a_round_that_is_cancelled_at_any_await_gives_back_its_place(
    database: Database,
    of_relay: Database,
    settings: Settings,
    post: WebhookPost,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    how: Cancel,
) -> None:
    monkeypatch.setattr(webhook_delivery, "CONCURRENT", 1)
    delivery = WebhookDelivery(of_relay, settings, post)

    async def deliver() -> None:
        await delivery.round()
        await delivery.settled()

    await owe(database, receiver.port)
    async for _ in cancel_at_each_await(deliver, how):
        await delivery.settled()
        receiver.got.clear()
        await owe(database, receiver.port)

        await deliver()

        assert receiver.got
        await owe(database, receiver.port)


@pytest.mark.parametrize("how", Cancel)
async def test_a_post_that_is_cancelled_at_any_await_keeps_no_socket(
    post: WebhookPost, receiver: Receiver, how: Cancel
) -> None:
    target = WebhookTarget(HOST, receiver.port, "/done")

    async def send() -> int:
        return await post(target, {}, b"{}")

    async for _ in cancel_at_each_await(send, how, send):
        async with asyncio.timeout(20):
            assert await send() == 204

    def has_sockets() -> bool:
        connections = psutil.Process().net_connections("tcp")
        return any(one.raddr and one.raddr.port == receiver.port for one in connections)

    await until(lambda: not has_sockets())
