"""The spans of a turn, under the ids of the status table (ADR 0035). Imported only if traces are exported.

    submit          PRODUCER: its id is the turn's `span_id`, its parent the client's span
      send          CLIENT: one wake-up of a call to SQS, by whichever process
      receive       CLIENT: from the message's arrival to the session's lock
      process       CONSUMER: one attempt, linked to the attempt before it (`telemetry.attempt_span`)
        claim, handle, settle

Names and attributes are those of OpenTelemetry's conventions for messaging. A span has ids, counts and classes, never a text of
a message or of an error.
"""

import time
from collections.abc import Iterable

from opentelemetry.trace import Link, SpanKind

from turnstile.telemetry.attempt_span import AttemptSpan
from turnstile.telemetry.spans import (
    Attributes,
    Spans,
    about_queue,
    about_turn,
    as_context,
    never_raises,
    parent_of,
    sampled_parent,
)
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.wire_format import TRACEPARENT, WakeUp


class TurnSpans:
    """Records the spans of the turns in a process."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self.flush = spans.flush

    def decide(self, trace: TraceContext) -> TraceContext:
        """The trace of a new turn with the sampler's decision."""
        decided = never_raises(self._spans.decide)(trace)
        return trace if decided is None else decided

    @never_raises
    def submitted(
        self, trace: TraceContext, stored: TraceContext, began_at: int, *, queue: str, turn_id: object, session_id: str
    ) -> None:
        """A submit that has ended now. `stored` is the trace in the table: another one if the submit found an earlier turn."""
        if trace.sampled:
            repeated = stored.span_id != trace.span_id
            attributes: Attributes = {**about_turn(turn_id, session_id), "turnstile.repeated": repeated}
            links = [Link(as_context(stored))] if repeated else []
            self._record_span("submit", trace, began_at, queue, attributes, links)

    @never_raises
    def sent(self, queue: str, taken: Iterable[tuple[OutgoingMessage, str]], began_at: int) -> None:
        """A call to SQS that has ended now: the messages that it took, with SQS's ids."""
        for message, message_id in taken:
            if (parent := sampled_parent(message.traceparent)) is not None:
                attributes = {
                    **about_queue(queue, "send"),
                    **about_turn(message.wake_up.turn_id, message.wake_up.session_id),
                    "messaging.message.id": message_id,
                }
                self._spans.start(f"send {queue}", parent, SpanKind.CLIENT, attributes, began_at).end()

    @never_raises
    def received(self, queue: str, message: ReceivedMessage, wake_up: WakeUp, outcome: str) -> None:
        """A message whose session is locked now or, as `outcome` says, is left to others."""
        if (parent := sampled_parent(message.attributes.get(TRACEPARENT))) is not None:
            attributes: Attributes = {
                **about_queue(queue, "receive"),
                **about_turn(wake_up.turn_id, wake_up.session_id),
                "messaging.message.id": message.message_id,
                "turnstile.receive_count": message.receive_count,
                "turnstile.outcome": outcome,
            }
            arrived_at = time.time_ns() - int((time.monotonic() - message.received_at) * 1e9)
            self._spans.start(f"receive {queue}", parent, SpanKind.CLIENT, attributes, arrived_at).end()

    @never_raises
    def begin_attempt(self, turn: ClaimedTurn, message_id: str | None, asked_at: int | None) -> AttemptSpan:
        """The attempt of a claim that has returned now.

        `message_id`: of the message that brought the turn. `asked_at`: when the claim was asked for; None if it came with the
        settle of the session's turn before.
        """
        if turn.trace.sampled and not turn.begun_before and (turn.generation > 1 or turn.kind != "turn"):
            # A statement has made the ids of this turn's span, and no process its span.
            name = "redrive" if turn.generation > 1 else "compensate"
            since = time.time_ns() - int(max(0.0, turn.queue_latency_seconds) * 1e9)
            self._record_span(name, turn.trace, since, turn.queue, about_turn(turn.id, turn.session_id))
        return AttemptSpan(self._spans, turn, message_id, asked_at)

    def _record_span(
        self,
        name: str,
        trace: TraceContext,
        began_at: int,
        queue: str,
        attributes: Attributes,
        links: list[Link] | None = None,
    ) -> None:
        attributes = {**about_queue(queue, "create", name), **attributes}
        span = self._spans.start(
            f"{name} {queue}", parent_of(trace), SpanKind.PRODUCER, attributes, began_at, ids=trace, links=links or ()
        )
        span.end()
