"""A receiver that is slow, a tenant that names many, a name whose resolver hangs: each keeps its share, and others are told."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.archive.archiving import end_turn
from tests.relay.webhooks.receiver import HOST, SLOW_HOST, Receiver, server_context
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.relay.webhooks import post as webhook_post
from turnstile.relay.webhooks.delivery import CONCURRENT, WebhookDelivery
from turnstile.relay.webhooks.post import WebhookPost
from turnstile.relay.webhooks.shares import PER_HOST, PER_TENANT


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


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
async def delivery(database: Database, settings: Settings, post: WebhookPost) -> AsyncIterator[WebhookDelivery]:
    opened = WebhookDelivery(database, settings, post)
    yield opened
    await opened.settled()


async def owe(database: Database, count: int, url: str) -> None:
    """So many older ones, of a tenant without a name."""
    await database.fetch(
        "INSERT INTO webhooks (turn_id, generation, url, event, due_at)"
        ' SELECT gen_random_uuid(), 1, %(url)s, \'{"status": "FAILED", "finished_at": null}\','
        "        clock_timestamp() - interval '1 hour' FROM generate_series(1, %(count)s::int)",
        {"url": url, "count": count},
    )


async def owed_to(database: Database, host: str) -> list[dict[str, Any]]:
    rows = await database.fetch("SELECT * FROM webhooks WHERE strpos(url, %(host)s) > 0", {"host": f"//{host}"})
    return [dict(row) for row in rows]


async def owe_one(database: Database, settings: Settings, port: int, tenant_id: str = "t") -> None:
    """To the good one, now."""
    await end_turn(database, settings, tenant_id=tenant_id, webhook_url=f"https://{HOST}:{port}/done")


async def test_thousands_owed_to_a_receiver_that_hangs_delay_nobody_elses(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver, slow: Receiver
) -> None:
    await owe(database, 3000, f"https://{SLOW_HOST}:{slow.port}/")
    await owe_one(database, settings, receiver.port)

    await delivery.round()
    await until(lambda: receiver.got and len(slow.got) == PER_HOST)

    tries = [row["tries"] for row in await owed_to(database, SLOW_HOST)]
    assert (tries.count(1), tries.count(0)) == (PER_HOST, 3000 - PER_HOST)
    await slow.close()


async def test_a_later_round_reads_few_of_them(
    database: Database, settings: Settings, delivery: WebhookDelivery, slow: Receiver
) -> None:
    await owe(database, 3000, f"https://{SLOW_HOST}:{slow.port}/")

    await delivery.round()

    [row] = await database.fetch(
        "SELECT count(*) FILTER (WHERE due_at < now() + interval '2 seconds') AS soon FROM webhooks WHERE tries = 0",
        {},
    )
    assert row["soon"] < 1000
    await slow.close()


async def test_a_tenant_with_many_receivers_that_hang_has_its_share_too(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver, slow: Receiver
) -> None:
    for number in range(CONCURRENT):
        await owe(database, 1, f"https://h{number}.{SLOW_HOST}:{slow.port}/")
    await owe_one(database, settings, receiver.port)

    await delivery.round()
    await until(lambda: receiver.got and len(slow.got) == PER_TENANT)

    rows = await database.fetch("SELECT tries FROM webhooks WHERE tries = 0", {})
    assert len(rows) == CONCURRENT - PER_TENANT
    await slow.close()


async def test_what_was_put_off_is_told_when_its_receiver_has_taken_what_was_before_it(
    database: Database, settings: Settings, delivery: WebhookDelivery, receiver: Receiver
) -> None:
    await owe(database, 3 * PER_HOST, f"https://{HOST}:{receiver.port}/")
    stopping = asyncio.Event()
    running = asyncio.create_task(delivery.run(stopping))

    await until(lambda: len(receiver.got) == 3 * PER_HOST)
    stopping.set()
    await running

    assert {(row["tries"], row["due_at"], row["error"]) for row in await owed_to(database, HOST)} == {(1, None, None)}


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that were asked for, of which all below SLOW_HOST get no answer before the test is over."""
    asked: list[str] = []
    over = threading.Event()

    def ask(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        if host.endswith(SLOW_HOST):
            over.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr(webhook_post.socket, "getaddrinfo", ask)
    yield asked
    over.set()


async def test_names_whose_resolver_hangs_keep_their_places_and_cost_nobody_a_try(
    database: Database,
    settings: Settings,
    receiver: Receiver,
    slow: Receiver,
    trusted: ssl.SSLContext,
    hanging: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 0.2)
    for number in range(CONCURRENT):
        await owe(database, 1, f"https://h{number}.{SLOW_HOST}:{slow.port}/")
    delivery = WebhookDelivery(database, settings, WebhookPost(may_reach=lambda address: True, tls=trusted))
    await delivery.round()

    async def timed_out() -> int:
        return [row["error"] for row in await database.fetch("SELECT error FROM webhooks", {})].count("timeout")

    async def first_have() -> bool:
        return await timed_out() >= 8

    async def all_have() -> bool:
        return await timed_out() >= PER_TENANT

    await until(first_have)
    await delivery.round()
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 15.0)
    await owe_one(database, settings, receiver.port)
    await delivery.round()
    await until(lambda: receiver.got)
    # A try is counted when it begins; how it ended is written down later.
    await until(all_have)

    assert len([name for name in hanging if name != HOST]) == PER_TENANT
    rows = await database.fetch("SELECT tries, error FROM webhooks WHERE tries > 0", {})
    assert sorted(row["error"] or "" for row in rows) == ["", *(["timeout"] * PER_TENANT)]
