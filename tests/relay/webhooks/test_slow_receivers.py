"""A receiver that is slow, or a name that hangs, delays its own webhooks and no others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.relay.webhooks.receiver import HOST, SLOW_HOST, Receiver, server_context
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.webhooks import delivery as webhook_delivery
from turnstile.relay.webhooks.delivery import PER_HOST, PER_TENANT, WebhookDelivery
from turnstile.relay.webhooks.post import WebhookPost


@pytest.fixture
async def slow(certificate: Path) -> AsyncIterator[Receiver]:
    """A receiver that takes requests and never answers."""
    opened = Receiver(server_context(certificate), answers=[None])
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def settings(settings: Settings, slow: Receiver) -> Settings:
    """Webhooks are allowed to both."""
    allowed = (*settings.webhook_hosts, f"{SLOW_HOST}:{slow.port}", f"*.{SLOW_HOST}:{slow.port}")
    return settings.model_copy(update={"webhook_hosts": allowed})


@pytest.fixture
async def delivery(
    of_relay: Database, settings: Settings, post: WebhookPost, slow: Receiver
) -> AsyncIterator[WebhookDelivery]:
    opened = WebhookDelivery(of_relay, settings, post)
    yield opened
    await slow.close()
    await opened.settled()


async def owe(database: Database, count: int, *urls: str, tenant: str = "t") -> None:
    """So many to each. All are due; the earlier they are named, the longer."""
    await database.fetch(
        "INSERT INTO webhooks (turn_id, generation, tenant_id, url, event, due_at)"
        ' SELECT gen_random_uuid(), 1, %(tenant)s, url, \'{"status": "FAILED", "finished_at": null}\','
        "        clock_timestamp() - interval '1 hour' + place * interval '1 second'"
        "   FROM unnest(%(urls)s::text[]) WITH ORDINALITY named (url, place), generate_series(1, %(count)s::int)",
        {"urls": list(urls), "count": count, "tenant": tenant},
    )


async def tries_of(database: Database, host: str) -> list[int]:
    rows = await database.fetch("SELECT tries FROM webhooks WHERE strpos(url, %(host)s) > 0", {"host": f"//{host}"})
    return [row["tries"] for row in rows]


async def test_thousands_owed_to_a_receiver_that_hangs_delay_no_others(
    database: Database, delivery: WebhookDelivery, receiver: Receiver, slow: Receiver
) -> None:
    await owe(database, 3000, f"https://{SLOW_HOST}:{slow.port}/")
    await owe(database, 1, f"https://{HOST}:{receiver.port}/")

    assert await delivery.round()
    await until(lambda: receiver.got and len(slow.got) == PER_HOST)

    # What waits for its host is not charged a try.
    tries = await tries_of(database, SLOW_HOST)
    assert (tries.count(1), tries.count(0)) == (PER_HOST, 3000 - PER_HOST)


async def test_a_tenant_whose_receivers_hang_delays_no_other_tenant(
    database: Database, delivery: WebhookDelivery, receiver: Receiver, slow: Receiver
) -> None:
    hanging = [f"https://h{number}.{SLOW_HOST}:{slow.port}/" for number in range(12)]
    await owe(database, 16, *hanging, tenant="one")
    await owe(database, 1, f"https://{HOST}:{receiver.port}/", tenant="two")

    assert await delivery.round()
    await until(lambda: receiver.got and len(slow.got) == PER_TENANT)

    [row] = await database.fetch("SELECT sum(tries) AS tried FROM webhooks WHERE tenant_id = 'one'", {})
    assert row["tried"] == PER_TENANT
    assert await delivery.round()
    assert len(slow.got) == PER_TENANT


async def test_a_host_is_the_same_however_its_address_is_written(
    database: Database, delivery: WebhookDelivery, slow: Receiver
) -> None:
    authority = f"{SLOW_HOST}:{slow.port}"
    written = [authority, authority.upper(), f"{authority}?x=//y", f"{authority}/a:b", SLOW_HOST, f"{SLOW_HOST}:8443/"]
    await owe(database, PER_HOST, *(f"https://{one}" for one in written))

    await delivery.round()

    tries = await database.fetch("SELECT sum(tries) AS sum FROM webhooks", {})
    assert tries[0]["sum"] == PER_HOST


async def test_an_invalid_url_is_a_failed_try(database: Database, delivery: WebhookDelivery) -> None:
    await owe(database, 1, "no address")

    await delivery.round()
    await delivery.settled()

    [row] = await database.fetch("SELECT error FROM webhooks", {})
    assert row["error"] == "address not understood"


async def test_the_concurrent_posts_of_a_process_are_limited(
    database: Database, delivery: WebhookDelivery, slow: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "CONCURRENT", 3)
    await owe(database, 1, *(f"https://h{number}.{SLOW_HOST}:{slow.port}/" for number in range(5)))

    for _ in range(2):
        assert await delivery.round()

    assert sorted(await tries_of(database, "")) == [0, 0, 1, 1, 1]


async def test_a_webhook_that_waits_for_its_host_is_posted_after_the_posts_before_it(
    database: Database, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    await owe(database, 3 * PER_HOST, f"https://{HOST}:{receiver.port}/")
    stopping = asyncio.Event()
    running = asyncio.create_task(delivery.run(stopping))

    await until(lambda: len(receiver.got) == 3 * PER_HOST)
    stopping.set()
    await running

    assert await tries_of(database, HOST) == [1] * 3 * PER_HOST
