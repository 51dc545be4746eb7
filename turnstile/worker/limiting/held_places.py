"""The places of running turns: the heartbeat keeps them alive with the lease, and the end of the attempt gives them back."""

from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.outcome import Failed, Outcome, Snoozed
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.limiting.limited_claims import LimitedClaims
from turnstile.worker.session_run import SessionRun

MOST_PAUSE_SECONDS = 86_400.0
"""A provider may ask for hours, until its day is over, and for no longer."""


class HeldPlaces(AttemptObserver):
    def __init__(self, claims: LimitedClaims) -> None:
        self._claims = claims

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        run.entry.places = self._claims.pick_up(turn.claim_id)

    def handler_ended(self, run: SessionRun, outcome: Outcome) -> None:
        """Pauses the turn's key for all workers, if its handler says that the provider wants that."""
        if not isinstance(outcome, Snoozed | Failed) or outcome.limit is None or outcome.after is None:
            return
        wants = () if run.entry.places is None else run.entry.places.wants
        want = next((one for one in wants if one.limit == outcome.limit), None)
        if want is None:
            log.warning(
                "limit.not_paused", limit=outcome.limit, why="it is not declared, or the turn has no key for it"
            )
        else:
            seconds = min(max(0.0, outcome.after), MOST_PAUSE_SECONDS)
            log.info("limit.paused", limit=outcome.limit, seconds=round(seconds, 3))
            self._claims.limiter.pause(want, seconds)

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        self._give_back(run)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        self._give_back(run)

    def _give_back(self, run: SessionRun) -> None:
        places, run.entry.places = run.entry.places, None
        if places is not None:
            self._claims.limiter.give_back(places)
