"""What an attempt causes outside the status table: the last events of its stream, the session's history, a round of the relay."""

from collections.abc import Callable

from turnstile.memory.history import History
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.outcome import Outcome
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.session_run import SessionRun


class StreamEnd(AttemptObserver):
    """Ends the attempt's event stream. `HandlerRunner` begins it, because the handler writes to it."""

    def handler_ended(self, run: SessionRun, outcome: Outcome) -> None:
        if run.emitter is not None:
            run.emitter.handler_ended()

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        if run.emitter is not None:
            run.emitter.settled(attempt.status, attempt.settlement)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        if run.emitter is not None:
            run.emitter.fall_silent()


class HistoryAppend(AttemptObserver):
    """Adds an answered turn's messages to the session's history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        run.appended = None if attempt.reply is None else self._history.append(attempt.turn, attempt.reply)


class RelayNudge(AttemptObserver):
    """Wakes the relay for a dead letter or a compensation, and for the session's next turn where this run claims no more."""

    def __init__(self, nudge_relay: Callable[[], None]) -> None:
        self._nudge_relay = nudge_relay

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        if attempt.status is TurnStatus.FAILED or not attempt.more:
            self._nudge_relay()
