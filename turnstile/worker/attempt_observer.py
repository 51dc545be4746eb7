"""The one seam for what the events of an attempt cause in addition to the turn's own steps.

    received         a wake-up has reached this worker: its session is locked, busy or deferred
    claimed          this worker has the turn; its handler begins next
    handler_ended    the outcome is known; the settle begins next
    settled          the end of the attempt is committed
    superseded       another claim has the turn: nothing that this attempt did counts

Spans, the event stream, log lines with their metrics, the history, parents and the relay observe. An observer returns at once and
never raises: it can neither delay nor change the turn's way. What takes time, it starts.
"""

from dataclasses import dataclass

from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import StoredMessage
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.outcome import Outcome
from turnstile.worker.session_run import SessionRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAttempt:
    """The committed end of an attempt."""

    turn: ClaimedTurn
    settlement: Settlement
    status: TurnStatus
    """The committed one: a cancel may have made it different from the settlement's."""
    reply: StoredMessage | None
    """The stored reply. None unless the turn is SUCCEEDED, or if the response to the settle was lost."""
    seconds: float
    """Time from the claim to the outcome."""
    more: bool
    """Whether the settle also asked for the session's next turn."""


class AttemptObserver:
    """Ignores every event. A subclass overrides what it observes."""

    def received(self, wake_up: WakeUp, message: ReceivedMessage, outcome: str) -> None:
        """`outcome`: the result of the lock (`Guard.result`), or "deferred"."""

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        """`asked_at`: when the claim was asked for, in nanoseconds of wall-clock time; None if a settle claimed the turn."""

    def handler_ended(self, run: SessionRun, outcome: Outcome) -> None: ...

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None: ...

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        """`at_settle`: the settle was refused. Otherwise the handler was stopped before, and nothing was asked."""


class AttemptObservers(AttemptObserver):
    """Passes each event on to all of them, in their order."""

    def __init__(self, *observers: AttemptObserver) -> None:
        self._observers = observers

    def received(self, wake_up: WakeUp, message: ReceivedMessage, outcome: str) -> None:
        for one in self._observers:
            one.received(wake_up, message, outcome)

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        for one in self._observers:
            one.claimed(run, turn, asked_at)

    def handler_ended(self, run: SessionRun, outcome: Outcome) -> None:
        for one in self._observers:
            one.handler_ended(run, outcome)

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        for one in self._observers:
            one.settled(run, attempt)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        for one in self._observers:
            one.superseded(run, turn, at_settle=at_settle)
