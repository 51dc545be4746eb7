"""Completion webhooks on their way: the loop that runs beside the relay's, and never in it.

Any number may run at once. A round takes what is due with SKIP LOCKED, for as many as there is room for, and each goes its way
in a task of its own: a receiver that is slow holds up its share of CONCURRENT places (`relay.webhooks.shares`), never a wake-up.
What does not arrive is due again after a backoff with full jitter, for about half a day; then it is given up with one ERROR line.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from functools import partial

import psycopg
import structlog

from turnstile.backends.backoff import full_jitter
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.relay.steps import LeftOut, alone, tell_failed
from turnstile.relay.webhooks.post import RESOLVER_THREADS, TOTAL_SECONDS, NotPostedError, WebhookPost
from turnstile.relay.webhooks.shares import WebhookShares
from turnstile.statements import webhooks
from turnstile.statements.webhooks import Choice, DueWebhook, OwedWebhook, Taken
from turnstile.webhooks.signature import signed_headers
from turnstile.webhooks.url import is_allowed, parse_webhook_url

CONCURRENT = RESOLVER_THREADS
"""Each with a resolver of its own: no try waits for a thread that somebody else's name keeps, and fails for it."""
LOOK_AT = 200
"""The most that one look reads and puts off."""
STAMP_SECONDS = 4 * TOTAL_SECONDS
MAX_TRIES = 16
BACKOFF_BASE_SECONDS = 5.0
BACKOFF_CAP_SECONDS = 4 * 3600.0
LAST_WORDS_SECONDS = 2.0
"""What is under way at a stop gets this long; then it is broken off and goes out again after its stamp."""

GONE = 410

log = structlog.get_logger("turnstile.webhook")


class WebhookDelivery:
    """The loop. Does nothing at all where the settings allow no webhooks."""

    def __init__(self, database: Database, settings: Settings, post: WebhookPost | None = None) -> None:
        self._database = database
        self._settings = settings
        self._post = post or WebhookPost()
        self._shares = WebhookShares()
        self._left_out = LeftOut()
        self._under_way: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self, stopping: asyncio.Event) -> None:
        """Rounds until `stopping`; neither an outage of Postgres nor a row that it refuses ends more than a round."""
        self._stopping = stopping
        stopped = asyncio.create_task(stopping.wait())
        try:
            while not stopping.is_set():
                more = await alone("webhooks", self.round())
                # Where somebody waits for a place, the first that is free; else the tick.
                waits = {stopped, *self._under_way} if more else {stopped}
                tick = self._settings.relay_tick_seconds
                await asyncio.wait(waits, timeout=tick, return_when=asyncio.FIRST_COMPLETED)
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=LAST_WORDS_SECONDS)
        finally:
            for task in (stopped, *self._under_way):
                task.cancel()
            self._post.close()

    async def round(self) -> bool:
        """Takes what is due and sends it on its way. True if somebody waits for a place."""
        if not self._settings.webhook_hosts:
            return False
        waiting, more = False, True
        while more and (room := CONCURRENT - len(self._under_way)) and not self._stopping.is_set():
            # At first few, because what there is no room for is locked for nothing.
            look_at = LOOK_AT if waiting else min(LOOK_AT, 4 * room)
            taken = await self._take(room, look_at)
            waiting = waiting or taken.put_off > 0
            # Those that were put off may have stood in front of others.
            more = taken.put_off > 0 and taken.looked_at == look_at
        return waiting or len(self._under_way) >= CONCURRENT

    async def _take(self, room: int, look_at: int) -> Taken:
        taken = await self._take_around(room, look_at)
        for webhook in taken.webhooks:
            self._shares.begin(webhook)
            task = asyncio.create_task(self._keep_place(webhook))
            self._under_way.add(task)
            task.add_done_callback(partial(self._forget, webhook))
        return taken

    async def _take_around(self, room: int, look_at: int) -> Taken:
        """Fewer and fewer, where they are refused; the one that is refused alone is left out for a while."""
        seen: list[DueWebhook] = []

        def choose(due: Sequence[DueWebhook]) -> Choice:
            seen.extend(due)
            return self._shares.choose(due, room)

        left_out = self._left_out.at(time.monotonic())
        try:
            return await webhooks.take(
                self._database, choose, look_at=look_at, stamp_seconds=STAMP_SECONDS, left_out=left_out
            )
        except psycopg.Error as error:
            if len(seen) > 1:
                return await self._take_around(room, len(seen) // 2)
            bad = seen[0].turn_id if seen else None
            if bad is not None:
                self._left_out.add(bad, time.monotonic())
            tell_failed("take_webhooks", error, bad)
            return Taken([], 0, 0)

    async def settled(self) -> None:
        """Waits for what is under way."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _forget(self, webhook: OwedWebhook, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._shares.end(webhook)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its try is counted and its stamp stands, so it goes out again, and not for ever.
            log.error("webhook.failed", exc_info=error)

    async def _keep_place(self, webhook: OwedWebhook) -> None:
        await self._deliver(webhook)
        # Its resolver may hang for longer than its try: so many threads as places, and others would wait for it.
        await self._post.let_go(webhook.host)

    async def _deliver(self, webhook: OwedWebhook) -> None:
        about = {"turn_id": str(webhook.turn_id), "generation": webhook.generation, "tries": webhook.tries}
        error = await self._try(webhook)
        try:
            if error is None:
                await webhooks.note_delivered(self._database, webhook)
                log.info("webhook.delivered", **about)
                return
            again = None
            if error != f"status {GONE}" and webhook.tries < MAX_TRIES:
                jitter = random.random()  # noqa: S311 - not a secret
                again = full_jitter(webhook.tries, jitter, BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS)
            await webhooks.note_failed(self._database, webhook, error, again_in_seconds=again)
        except DatabaseUnavailableError as away:
            # Due again after its stamp: the receiver tells a repeat by its id.
            log.warning("webhook.not_noted", error=str(away), **about)
            return
        except psycopg.Error as refused:
            tell_failed("note_webhook", refused, webhook.turn_id)
            return
        if again is None:
            log.error("webhook.given_up", reason=error, **about)
        else:
            log.info("webhook.not_delivered", reason=error, again_in_seconds=round(again, 1), **about)

    async def _try(self, webhook: OwedWebhook) -> str | None:
        """None if it has arrived, else what stood in the way."""
        if webhook.tries > MAX_TRIES:
            return "its deliverers were lost"
        try:
            target = parse_webhook_url(webhook.url)
        except ValueError:
            return "address not understood"
        if not is_allowed(target, self._settings.webhook_hosts):
            # Allowed when it was submitted; the deployment has thought better of it.
            return "host not allowed"
        body = as_body(webhook)
        headers = signed_headers(self._settings.webhook_secrets, webhook.event_id, int(time.time()), body)
        try:
            status = await self._post(target, headers, body)
        except NotPostedError as error:
            return str(error)
        return None if 200 <= status < 300 else f"status {status}"


def as_body(webhook: OwedWebhook) -> bytes:
    """What is posted; the same bytes for every try of one event."""
    event = webhook.event
    document = {
        "type": f"turn.{str(event['status']).lower()}",
        "timestamp": event["finished_at"],
        "data": event,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
