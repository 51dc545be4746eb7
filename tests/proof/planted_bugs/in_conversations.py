"""Bugs in what clients are told while they wait: streams, waits, webhooks."""

from collections.abc import Callable
from typing import Any

import turnstile.producer.routes.turns
import turnstile.producer.watch.turn_watch
import turnstile.relay.webhooks.delivery
import turnstile.streaming.stream
import turnstile.streaming.subscriptions
import turnstile.worker.attempt.emitter
from tests.proof.planted_bugs.patching import alter, replace


def stream_goes_on_over_a_hole() -> None:
    """What Redis did not take is forgotten, the worker goes on behind it, and no reader is reset."""
    whole = "if not anew and not (last_fence == fence and last_n == first - 1) then return 'lost' end"
    alter(turnstile.streaming.stream, "APPEND", (whole, ""))

    def forgetful(original: Callable[..., Any]) -> Callable[..., Any]:
        def note(self: Any, answer: Any) -> None:
            original(
                self,
                turnstile.streaming.stream.Appended.APPENDED
                if answer is turnstile.streaming.stream.Appended.AWAY
                else answer,
            )

        return note

    def trusting(original: Callable[..., Any]) -> Callable[..., Any]:
        def take(self: Any, event: Any) -> bool:
            original(self, event)
            self._misses_some = False
            return True

        return take

    replace(turnstile.worker.attempt.emitter.Emitter, "_note", forgetful)
    replace(turnstile.producer.watch.turn_watch._Following, "take", trusting)


def emit_not_fenced() -> None:
    """What a superseded run says goes into the stream, behind the words of its successor."""
    unfenced = """if last_fence > fence then
    fence, first = last_fence, last_n + 1
    final = first + (#ARGV - 5) / 2 - 1
    ARGV[1], ARGV[2], ARGV[3] = string.format('%d', fence), string.format('%d', first), 'next'
end
"""
    alter(turnstile.streaming.stream, "APPEND", ("if last_fence > fence then return 'superseded' end\n", unfenced))


def event_ids_begin_again() -> None:
    """Each attempt numbers its events as the first did, so that a reader takes its words for more of the old ones."""
    alter(turnstile.streaming.stream, "APPEND", (
        "    for n = first, final do\n",
        "    if anew and first == 1 then redis.call('DEL', KEYS[1]) end\n    for n = first, final do\n",
    ))  # fmt: skip
    replace(
        turnstile.worker.attempt.emitter,
        "numbered",
        lambda original: lambda fence, first, sayings: original(1, first, sayings),
    )


def end_not_said_at_settle() -> None:
    """A settled turn falls silent: its readers find out when they look at the table."""

    def silent(original: Callable[..., Any]) -> Callable[..., Any]:
        def settled(self: Any, status: Any, settlement: Any) -> None:
            self.fall_silent()

        return settled

    replace(turnstile.worker.attempt.emitter.Emitter, "settled", silent)


def waits_are_woken_by_looks() -> None:
    """Nobody listens for hints: whoever waits hears of the end when he looks for himself."""
    replace(turnstile.streaming.subscriptions.Listener, "tell", lambda original: lambda self, **_: None)


def wait_without_its_bound() -> None:
    """Whoever waits does so until the turn ends, however little he asked for."""

    def patient(original: Callable[..., Any]) -> Callable[..., Any]:
        async def wait(watch: Any, request: Any, tenant_id: str, turn_id: Any, seconds: float) -> Any:
            return await original(watch, request, tenant_id, turn_id, seconds + 60.0)

        return wait

    replace(turnstile.producer.routes.turns, "wait_for_end", patient)


def any_answer_delivers_a_webhook() -> None:
    """A receiver that says 500 is taken to have understood."""

    def easily_pleased(original: Callable[..., Any]) -> Callable[..., Any]:
        async def attempt(self: Any, webhook: Any) -> str | None:
            error: str | None = await original(self, webhook)
            return None if error is not None and error.startswith("status 5") else error

        return attempt

    replace(turnstile.relay.webhooks.delivery.WebhookDelivery, "_try", easily_pleased)


def webhook_given_up_at_once() -> None:
    """A webhook that did not arrive is forgotten."""
    replace(turnstile.relay.webhooks.delivery, "MAX_TRIES", lambda _: 1)


def webhook_signed_without_its_id() -> None:
    """The signature covers the body alone, so that an old one fits a new event."""

    def careless(original: Callable[..., Any]) -> Callable[..., Any]:
        def signed(secrets: Any, event_id: str, timestamp: int, body: bytes) -> Any:
            return {**original(secrets, "", timestamp, body), "webhook-id": event_id}

        return signed

    replace(turnstile.relay.webhooks.delivery, "signed_headers", careless)
