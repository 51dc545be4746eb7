"""The limits as one worker keeps them: in Redis with the others, and by its own share while Redis is away.

Steps of the same moment share a call. A place that comes free calls the session that has waited longest for it; this worker
begins that session at once, without a message, or wakes it through the queue if it has no room.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from turnstile.backends.batcher import Batcher
from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.limits.fleet_limits import (
    DONE,
    Answer,
    FleetLimits,
    GiveBack,
    Keep,
    Pause,
    Places,
    Refused,
    Step,
    Take,
    WaitingSession,
)
from turnstile.limits.rules import Want
from turnstile.statements.defer import Defer, defer
from turnstile.telemetry.own_log import log
from turnstile.worker.limiting.local_share import LocalShare

BATCH = 50
MOMENT_SECONDS = 0.002
"""How long places that are given back wait for a call that takes them along."""
AWAY_SECONDS = 5.0
"""The deferral of a session that the worker's own share refuses."""
JITTER = 0.5
"""By this part a deferral may be longer, unless it has a time of its own."""
MOST_CALLED = 10_000
"""How many called sessions are remembered until they ask again."""


class Limiter:
    """`begin_called`: begins a called session, or returns False if this worker can't."""

    def __init__(
        self,
        fleet: FleetLimits,
        database: Database,
        begin_called: Callable[[WaitingSession], bool],
        nudge_relay: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._begin_called = begin_called
        self._nudge_relay = nudge_relay
        self.share = LocalShare()
        self._steps: Batcher[Step, Answer] = Batcher(self._run, limit=BATCH)
        self._wakes: Batcher[Defer, object] = Batcher(partial(defer, database), limit=BATCH)
        self._tasks: set[asyncio.Task[object]] = set()
        self._owed: list[GiveBack] = []
        """Places that the next call gives back."""
        self._is_due = False
        """Whether a call is due soon, if no other comes first."""
        self._called: dict[str, int] = {}
        """Since when a called session has waited."""

    async def take(self, places: Places, tenant_id: str, session_id: str) -> Refused | None:
        """Takes places and tokens for a claim; the result says why not. The call may be repeated for the same claim."""
        session = WaitingSession(tenant_id, session_id)
        if (since := self._called.pop(session.name, None)) is not None:
            session = WaitingSession(tenant_id, session_id, since)
        answer = await self._steps(Take(places, session))
        if not isinstance(answer, Refused):
            self.share.enter(places.wants)
            return None
        return answer

    def give_back(self, places: Places, *, unused: bool = False) -> None:
        """Frees the places, in a moment: with the next call, which another turn is about to make. `unused`: no turn began."""
        self.share.leave(places.wants)
        self._owed.append(GiveBack(places, unused))
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(MOMENT_SECONDS, self._send_owed)

    def _send_owed(self) -> None:
        self._is_due = False
        if self._owed:
            self._begin(self._run(()))

    def keep(self, places: Places) -> None:
        """Makes the places last for a lease more, in the background."""
        self._steps(Keep(places, anew=True))

    def pause(self, want: Want, seconds: float) -> None:
        """Lets nothing of the key begin for so long, on any worker; in the background."""
        self._steps(Pause(want, seconds))

    async def finish(self) -> None:
        """Gives back what is still owed, before the process ends: otherwise its places would be kept for a lease."""
        self._send_owed()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, steps: Sequence[Step]) -> list[Answer]:
        owed, self._owed = self._owed, []
        outcome = await self._fleet.run([*owed, *steps])
        if outcome is None:
            # What was owed is lost: those places expire.
            return [self._answer_alone(step) for step in steps]
        for session in outcome.called:
            self._call(session)
        return outcome.answers[len(owed) :]

    def _answer_alone(self, step: Step) -> Answer:
        if isinstance(step, Take) and (want := self.share.take(step.places.wants, time.monotonic())) is not None:
            return Refused(want, AWAY_SECONDS, exact=False)
        return DONE

    def _call(self, session: WaitingSession) -> None:
        if len(self._called) < MOST_CALLED:
            self._called[session.name] = session.since
        if not self._begin_called(session):
            self._begin(self._wake(session))

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        # Nothing of the caller's session: an empty context, without ids that are bound to a log.
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self, session: WaitingSession) -> None:
        try:
            await self._wakes(Defer(session.tenant_id, session.session_id, 0.0))
        except DatabaseUnavailableError as error:
            # The session gets its wake-up anyway, a little later.
            log.info("session.not_woken", session_id=session.session_id, error=str(error))
        else:
            self._nudge_relay()


def deferral(refused: Refused) -> float:
    """How long the session is deferred, in seconds."""
    return refused.seconds if refused.exact else refused.seconds * CHANCE.uniform(1.0, 1.0 + JITTER)
