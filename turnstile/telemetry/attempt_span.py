"""The span of one attempt at a turn, with its claim, its handler and its settle inside."""

import time

from opentelemetry.context import attach
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, StatusCode, set_span_in_context

from turnstile.telemetry.spans import Attributes, Spans, about_queue, about_turn, as_context, never_raises
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

FAULTS = {AttemptOutcome.FAILED, AttemptOutcome.RETRIED}
SUPERSEDED = "superseded"


class AttemptSpan:
    """Use it on the event loop. An attempt that is not sampled records nothing, and its handler's own spans neither.

    A worker that dies exports nothing of its attempt: the next attempt's link names a span that was never exported.
    """

    def __init__(self, spans: Spans, turn: ClaimedTurn, message_id: str | None, asked_at: int | None) -> None:
        self._spans = spans
        self._turn = turn
        self.trace = turn.trace
        """The span that contains the handler's own calls."""
        self._span: Span | None = None
        self._handler: Span | None = None
        self._settle_began_at: int | None = None
        self._ended_at: int | None = None
        self._awaits_link = False
        # Nothing is made for a turn that is not sampled: most are not (ADR 0035).
        if turn.trace.sampled:
            self.trace = turn.trace.attempt(turn.fence)
            attributes: dict[str, str | int | bool] = {
                **about_queue(turn.queue, "process"),
                **about_turn(turn.id, turn.session_id),
                "turnstile.attempt": turn.attempt,
                "turnstile.fence": turn.fence,
                "turnstile.generation": turn.generation,
            }
            if message_id is not None:
                attributes["messaging.message.id"] = message_id
            now = time.time_ns()
            self._span = span = spans.start(
                f"process {turn.queue}",
                as_context(turn.trace),
                SpanKind.CONSUMER,
                attributes,
                asked_at or now,
                ids=self.trace,
            )
            if asked_at is not None:
                self._inner(span, "claim", asked_at).end(now)

    @property
    def is_recorded(self) -> bool:
        return self._span is not None and self._span.is_recording()

    @never_raises
    def enter_handler(self) -> None:
        """Makes the handler's span the current one of this task, and of what it starts. Call it in the handler's own task."""
        if self._span is not None and self._span.is_recording():
            self._handler = self._inner(self._span, "handle", time.time_ns())
        # Not detached: the task ends with the handler.
        attach(set_span_in_context(self._handler or self._span or NonRecordingSpan(as_context(self.trace))))

    @never_raises
    def leave_handler(self, error_type: str | None) -> None:
        """The attempt's outcome is known, and its settle begins. A handler that ignores its cancellation may still run."""
        self._settle_began_at = time.time_ns()
        if self._handler is not None:
            _mark(self._handler, error_type)
            self._handler.end()

    @never_raises
    def settled(self, status: TurnStatus, settlement: Settlement) -> None:
        """`status`: the committed one; a cancel may have made it different from the settlement's."""
        outcome = AttemptOutcome.CANCELED if status is TurnStatus.CANCELED else settlement.outcome
        self._end(outcome, settlement.error_class if outcome in FAULTS else None)

    @never_raises
    def superseded(self, *, at_settle: bool) -> None:
        """Another claim has the turn. Not `at_settle`: no settle was asked for."""
        if not at_settle:
            self._settle_began_at = None
        self._end(SUPERSEDED, SUPERSEDED)

    def await_link(self) -> None:
        """The attempt before this one is looked up: the span is not exported before `link`."""
        self._awaits_link = True

    @never_raises
    def link(self, earlier: TraceContext | None) -> None:
        """Links to the attempt before this one; None: it is not known."""
        if earlier is not None and self._span is not None:
            self._span.add_link(as_context(earlier))
        self._awaits_link = False
        self._export()

    def _end(self, outcome: str, error_type: str | None) -> None:
        if self._span is None:
            return
        self._ended_at = time.time_ns()
        if self._span.is_recording():
            if self._settle_began_at is not None:
                self._inner(self._span, "settle", self._settle_began_at).end(self._ended_at)
            self._span.set_attribute("turnstile.outcome", str(outcome))
            _mark(self._span, error_type)
        self._export()

    def _export(self) -> None:
        if self._span is not None and self._ended_at is not None and not self._awaits_link:
            self._span.end(self._ended_at)

    def _inner(self, outer: Span, name: str, began_at: int) -> Span:
        turn = self._turn
        attributes: Attributes = {**about_turn(turn.id, turn.session_id), "turnstile.queue": turn.queue}
        return self._spans.start(
            f"{name} {turn.queue}", outer.get_span_context(), SpanKind.INTERNAL, attributes, began_at
        )


def _mark(span: Span, error_type: str | None) -> None:
    # Without a description and without the exception: their text may quote a message.
    if error_type is not None:
        span.set_attribute("error.type", error_type)
        span.set_status(StatusCode.ERROR)
