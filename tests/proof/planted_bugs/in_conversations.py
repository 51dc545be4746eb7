"""Bugs in what clients get while they wait: streams, waits, webhooks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import turnstile.producer.routes.turn_routes
import turnstile.producer.watch.turn_watch
import turnstile.relay.webhooks.delivery
import turnstile.streaming.event_hints
import turnstile.streaming.stream
import turnstile.worker.attempt.emitter
from tests.proof.planted_bugs.patching import alter, instead_of, replace
from tests.proof.planted_bugs.planted_bug import planted
from turnstile.streaming.stream import Appended


@planted("I17", "redis-unreachable", "worker-cut-off-from-redis", speeches=0.5, seconds=12.0, bound_seconds=60.0)
def stream_goes_on_after_a_gap() -> None:
    """Events that Redis did not take are dropped, the worker goes on after them, and no reader is reset."""
    whole = "if not anew and not (last_fence == fence and last_n == first - 1) then return 'lost' end"
    alter(turnstile.streaming.stream, "APPEND", (whole, ""))

    @instead_of(turnstile.worker.attempt.emitter.Emitter, "_note")
    def note(original: Any, self: Any, answer: Any) -> None:
        original(self, Appended.APPENDED if answer is Appended.AWAY else answer)

    @instead_of(turnstile.producer.watch.turn_watch._Following, "take")
    def take(original: Any, self: Any, event: Any) -> bool:
        original(self, event)
        self._misses_some = False
        return True


# The sleeper must go on while its successor speaks.
@planted("I17", "worker-cut-off-from-postgres", speeches=0.5, seconds=15.0, bound_seconds=60.0)
def emit_not_fenced() -> None:
    """Events of a superseded run are appended to the stream of its successor."""
    unfenced = """if last_fence > fence then
    fence, first = last_fence, last_n + 1
    final = first + (#ARGV - 5) / 2 - 1
    ARGV[1], ARGV[2], ARGV[3] = string.format('%d', fence), string.format('%d', first), 'next'
end
"""
    alter(turnstile.streaming.stream, "APPEND", ("if last_fence > fence then return 'superseded' end\n", unfenced))


@planted("I17", "worker-sigkill", "worker-sigterm-twice")
def event_ids_begin_again() -> None:
    """Each attempt numbers its events from one, so readers take them for more of the first attempt."""
    alter(turnstile.streaming.stream, "APPEND", (
        "    for n = first, final do\n",
        "    if anew and first == 1 then redis.call('DEL', KEYS[1]) end\n    for n = first, final do\n",
    ))  # fmt: skip
    replace(turnstile.worker.attempt.emitter, "numbered", lambda original: lambda _, *more: original(1, *more))


@planted("I17", seconds=12.0)
def end_not_sent_at_settle() -> None:
    """A settle appends no end event: readers find the end in the table only."""

    @instead_of(turnstile.worker.attempt.emitter.Emitter, "settled")
    def settled(original: Any, self: Any, status: Any, settlement: Any) -> None:
        self.fall_silent()


@planted("I15", seconds=15.0)
def waits_hear_no_events() -> None:
    """Waiting requests get no events, and see the end at their next look at the table only."""
    replace(turnstile.streaming.event_hints.Listener, "tell", lambda original: lambda self, **_: None)


# It shows only where turns take longer than the wait that was asked for.
@planted("I15", seconds=12.0, clients=4, sleep_seconds=(4.0, 8.0), bound_seconds=60.0)
def wait_without_its_bound() -> None:
    """A wait lasts until the turn ends, whatever the client asked for."""

    @instead_of(turnstile.producer.routes.turn_routes, "wait_for_end")
    async def wait(original: Any, watch: Any, request: Any, tenant_id: str, turn_id: Any, seconds: float) -> Any:
        return await original(watch, request, tenant_id, turn_id, seconds + 60.0)


@planted("I11")
def reads_from_a_replica() -> None:
    """Reads go to a replica that is two seconds behind, which does not know a turn that was just accepted."""

    @instead_of(turnstile.producer.routes.turn_routes, "read_turn")
    async def read(original: Any, database: Any, tenant_id: str, turn_id: Any) -> Any:
        record = await original(database, tenant_id, turn_id)
        age = timedelta(0) if record is None else datetime.now(UTC) - record.created_at
        return record if age > timedelta(seconds=2) else None


@planted("I20", "redis-flushed", seconds=14.0, clients=10)
def any_response_delivers_a_webhook() -> None:
    """A receiver that responds with 500 counts as notified."""

    @instead_of(turnstile.relay.webhooks.delivery.WebhookDelivery, "_try")
    async def attempt(original: Any, self: Any, webhook: Any) -> str | None:
        error: str | None = await original(self, webhook)
        return None if error is not None and error.startswith("status 5") else error


@planted("I20", "redis-flushed", seconds=12.0)
def webhook_given_up_at_once() -> None:
    """A webhook is given up after its first failed try."""
    replace(turnstile.relay.webhooks.delivery, "MAX_TRIES", lambda _: 1)


@planted("I20")
def webhook_signed_without_its_id() -> None:
    """The signature covers the body alone, so that an old one fits a new event."""

    @instead_of(turnstile.relay.webhooks.delivery, "signed_headers")
    def signed(original: Any, secrets: Any, event_id: str, timestamp: int, body: bytes) -> Any:
        return {**original(secrets, "", timestamp, body), "webhook-id": event_id}
