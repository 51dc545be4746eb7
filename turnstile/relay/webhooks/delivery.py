"""Delivers completion webhooks, in a loop that runs in parallel with the relay's (ADR 0021).

Any number of processes may run it. A round takes due webhooks with SKIP LOCKED, up to CONCURRENT posts at a time, PER_HOST to one
host and PER_TENANT of one tenant: a slow receiver delays only its own webhooks, and a tenant only those of its own. A post that
fails is due again after a backoff with full jitter, for about half a day; then it is given up with one ERROR line.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping

from turnstile.backends.backoff import full_jitter
from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.fault_isolation import LeftOut, alone, fetch_around
from turnstile.relay.webhooks.post import CONCURRENT, TOTAL_SECONDS, NotPostedError, WebhookPost
from turnstile.statements import webhooks
from turnstile.statements.webhooks import OwedWebhook
from turnstile.telemetry.metrics import WEBHOOKS
from turnstile.telemetry.own_log import log
from turnstile.webhooks.signature import derive_secret, signed_headers
from turnstile.webhooks.webhook_url import is_allowed, parse_webhook_url

PER_HOST = 16
PER_TENANT = 32
"""Half of all, so that one receiver that hangs does not take all that its tenant has."""
STAMP_SECONDS = 4 * TOTAL_SECONDS
MAX_TRIES = 16
BACKOFF_BASE_SECONDS = 5.0
BACKOFF_CAP_SECONDS = 4 * 3600.0
STOP_SECONDS = 2.0
"""Seconds that a stop waits for the posts under way. They are then cancelled, and due again after their stamp."""
REST = 4
"""Pause after a round, as a multiple of its duration: a round may read past a long backlog of a host at its limit."""

GONE = 410


class WebhookDelivery:
    """The loop. Does nothing if the settings allow no webhooks."""

    def __init__(self, database: Database, settings: Settings, post: WebhookPost | None = None) -> None:
        self._database = database
        self._settings = settings
        self._post = post or WebhookPost()
        self._left_out = LeftOut()
        self._under_way: dict[asyncio.Task[None], OwedWebhook] = {}
        """The posts under way."""
        self._stopping = asyncio.Event()

    async def run(self, stopping: asyncio.Event) -> None:
        """Runs rounds until `stopping`. An outage of Postgres, or a row that it refuses, ends one round at most."""
        self._stopping = stopping
        stopped = asyncio.create_task(stopping.wait())
        tick = self._settings.relay_tick_seconds
        try:
            while not stopping.is_set():
                began = time.monotonic()
                more = await alone("webhooks", self.round())
                waits = {stopped, *self._under_way} if more else {stopped}
                await asyncio.wait({stopped}, timeout=min(tick, REST * (time.monotonic() - began)))
                await asyncio.wait(waits, timeout=tick, return_when=asyncio.FIRST_COMPLETED)
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=STOP_SECONDS)
        finally:
            for task in (stopped, *self._under_way):
                task.cancel()
            await self._post.close()

    async def round(self) -> bool:
        """Takes due webhooks and begins to post them. True if more may be due, which wait until a post ends."""
        if not self._settings.webhook_hosts:
            return False
        while (room := CONCURRENT - len(self._under_way)) > 0 and not self._stopping.is_set():
            to_hosts = Counter(one.host for one in self._under_way.values())
            of_tenants = Counter(one.tenant_id for one in self._under_way.values())
            # Repeats until nothing is found: a host or a tenant at its limit by now may have been in front of others.
            if not await self._take(room, to_hosts, of_tenants):
                at_limit = max(to_hosts.values(), default=0) >= PER_HOST
                return at_limit or max(of_tenants.values(), default=0) >= PER_TENANT
        return True

    async def settled(self) -> None:
        """Waits for the posts under way."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _take(self, room: int, to_hosts: Mapping[str, int], of_tenants: Mapping[str, int]) -> int:
        asked = {
            "limit": room,
            "to_hosts": json.dumps(to_hosts),
            "of_tenants": json.dumps(of_tenants),
            "per_host": PER_HOST,
            "per_tenant": PER_TENANT,
            "stamp": STAMP_SECONDS,
        }
        rows = await fetch_around("take_webhooks", self._left_out, self._database, webhooks.TAKE, webhooks.FIND, asked)
        for row in rows:
            webhook = OwedWebhook(**row)
            # If the result is not noted, the webhook is due again after its stamp. The receiver recognises a repeat by its id.
            task = asyncio.create_task(
                alone("deliver_webhook", self._deliver(webhook), webhook.turn_id, webhook.trace_id)
            )
            self._under_way[task] = webhook
            task.add_done_callback(self._under_way.pop)
        return len(rows)

    async def _deliver(self, webhook: OwedWebhook) -> None:
        about = {
            "turn_id": str(webhook.turn_id),
            "trace_id": webhook.trace_id,
            "generation": webhook.generation,
            "tries": webhook.tries,
        }
        error = await self._try(webhook)
        if error is None:
            await webhooks.note_delivered(self._database, webhook)
            log.info("webhook.delivered", **about)
            WEBHOOKS.add(1, "delivered")
        elif error == f"status {GONE}" or webhook.tries >= MAX_TRIES:
            await webhooks.note_failed(self._database, webhook, error, again_in_seconds=None)
            log.error("webhook.given_up", reason=error, **about)
            WEBHOOKS.add(1, "given_up")
        else:
            jitter = CHANCE.random()
            again = full_jitter(webhook.tries, jitter, BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS)
            await webhooks.note_failed(self._database, webhook, error, again_in_seconds=again)
            log.info("webhook.not_delivered", reason=error, again_in_seconds=round(again, 1), **about)
            WEBHOOKS.add(1, "retried")

    async def _try(self, webhook: OwedWebhook) -> str | None:
        """None if the webhook is delivered, otherwise the reason."""
        if webhook.tries > MAX_TRIES:
            return "its deliverers were lost"
        try:
            target = parse_webhook_url(webhook.url)
        except ValueError:
            return "address not understood"
        if not is_allowed(target, self._settings.webhook_hosts):
            # The settings have changed since the submit.
            return "host not allowed"
        body = as_body(webhook)
        secrets = [
            derive_secret(root, webhook.tenant_id, number)
            for root in self._settings.webhook_secrets
            for number in webhook.secret_numbers
        ]
        headers = signed_headers(secrets, webhook.event_id, int(time.time()), body)
        try:
            status = await self._post(target, headers, body)
        except NotPostedError as error:
            return str(error)
        return None if 200 <= status < 300 else f"status {status}"


def as_body(webhook: OwedWebhook) -> bytes:
    """The request body; the same bytes for every try of one event."""
    event = webhook.event
    document = {
        "type": f"turn.{str(event['status']).lower()}",
        "timestamp": event["finished_at"],
        "data": event,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
