"""The places of running turns: the heartbeat keeps them alive with the lease, and the end of the attempt gives them back."""

from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.limiting.limited_claims import LimitedClaims
from turnstile.worker.session_run import SessionRun


class HeldPlaces(AttemptObserver):
    def __init__(self, claims: LimitedClaims) -> None:
        self._claims = claims

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        run.entry.places = self._claims.pick_up(turn.claim_id)

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        self._give_back(run)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        self._give_back(run)

    def _give_back(self, run: SessionRun) -> None:
        places, run.entry.places = run.entry.places, None
        if places is not None:
            self._claims.limiter.give_back(places)
