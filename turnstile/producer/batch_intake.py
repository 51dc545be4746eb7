"""Commits the turns of a batch: many with one statement, those of a session in the order in which the batch has them.

A turn that can't be taken now (a limit is reached, the session is locked, Postgres is away) keeps back those behind it in its
session: they would overtake it when the client sends it again. A turn that is refused for good keeps back none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import psycopg

from turnstile.access.caller import Caller
from turnstile.errors import DatabaseUnavailableError, RowLockedError, SubmissionRefusedError
from turnstile.producer.rates.rate_limits import Asked, RateLimits
from turnstile.producer.session_gate import Session, SessionGate
from turnstile.producer.sharing.fair_lanes import FairLanes
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError
from turnstile.producer.sharing.seen_tenants import SeenTenants
from turnstile.producer.submit_intake import MAX_BATCH, Intake, count_failure, session_of
from turnstile.statements.submit import Accepted, Submission
from turnstile.submission.commit_then_wake import Submitting
from turnstile.turn.on_busy import OnBusy

LANES = 1
"""Statements of batches at a time. With more, a session's later turns could be committed before its earlier ones."""
MOST_BATCHES = 8
"""Batches under way at a time. Each may have some megabytes in memory."""
LINES_AT_A_TIME = 8
"""Sessions of a batch whose turns are counted, or committed one by one, at the same time."""

PutOff = NoPlaceError | DatabaseUnavailableError
"""Why a turn is not taken now."""
Outcome = Accepted | SubmissionRefusedError | PutOff


class _Batch:
    """The turns of a batch by their places in it, and what has become of them."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        self.submissions = submissions
        self.outcomes: dict[int, Outcome] = {}

    def left(self) -> list[int]:
        """The places of the turns that have no outcome yet."""
        return [place for place in range(len(self.submissions)) if place not in self.outcomes]

    def lines(self, places: Iterable[int]) -> list[list[int]]:
        """These places by session, those of each in their order."""
        found: dict[Session, list[int]] = {}
        for place in places:
            found.setdefault(session_of(self.submissions[place]), []).append(place)
        return list(found.values())

    def put_off(self, place: int, error: PutOff) -> None:
        """Notes that the turn can't be taken now, nor those behind it in its session."""
        session = session_of(self.submissions[place])
        behind = [one for one in self.left() if one >= place and session_of(self.submissions[one]) == session]
        self.outcomes |= dict.fromkeys(behind, error)


class BatchIntake:
    """Submits the batches of clients. One per process."""

    def __init__(
        self,
        intake: Intake,
        submitting: Submitting,
        gate: SessionGate,
        rates: RateLimits | None,
        *,
        shared: bool | SeenTenants,
    ) -> None:
        """`gate`: that of `intake`."""
        self._intake = intake
        self._submitting = submitting
        self._gate = gate
        self._rates = rates
        self._lanes = FairLanes(LANES)
        self._places = FairPlaces(MOST_BATCHES, "batches under way", shared=shared)

    async def accept(self, caller: Caller, submissions: Sequence[Submission]) -> list[Outcome]:
        """Commits the caller's turns and sends their wake-ups; returns what has become of each, in their order.

        Raises NoPlaceError: nothing was done.
        """
        began_at = time.time_ns()
        with self._places.take(caller.tenant_id):
            batch = _Batch([self._submitting.decide_sampling(one) for one in submissions])
            await _line_by_line(batch, batch.left(), lambda place: self._admit(batch, caller, place))
            apart = self._find_apart(batch)
            together = [place for place in batch.left() if place not in apart]
            await asyncio.gather(
                self._commit_together(batch, caller.tenant_id, together), self._commit_apart(batch, apart)
            )
            outcomes = [batch.outcomes[place] for place in range(len(submissions))]
            await asyncio.gather(
                *(
                    self._report(one, outcome, began_at)
                    for one, outcome in zip(batch.submissions, outcomes, strict=True)
                )
            )
            return outcomes

    async def _report(self, submission: Submission, outcome: Outcome, began_at: int) -> None:
        if isinstance(outcome, Accepted):
            await self._intake.report(submission, outcome, began_at)
        else:
            count_failure(submission.queue, outcome)

    async def _admit(self, batch: _Batch, caller: Caller, place: int) -> None:
        """Counts the turn as a submit of its own, against the rate limits and against the caps on open turns."""
        submission = batch.submissions[place]
        if self._rates is not None:
            verdict = await self._rates.spend(Asked(caller, submission.session_id, is_submit=True))
            if verdict.refused is not None:
                raise verdict.refused
        await self._intake.admit(submission)

    def _find_apart(self, batch: _Batch) -> set[int]:
        """The places of the turns of sessions for which one statement is not enough."""
        special = {
            session_of(one)
            for one in batch.submissions
            if one.on_busy is not OnBusy.ENQUEUE or session_of(one) in self._gate.suspects
        }
        return {place for place in batch.left() if session_of(batch.submissions[place]) in special}

    async def _commit_together(self, batch: _Batch, tenant_id: str, places: Sequence[int]) -> None:
        for start in range(0, len(places), MAX_BATCH):
            some = [place for place in places[start : start + MAX_BATCH] if place not in batch.outcomes]
            wanted = [batch.submissions[place] for place in some]
            if not wanted:
                continue
            try:
                async with self._lanes.enter(tenant_id):
                    outcomes = await self._submitting.commit(wanted)
            except RowLockedError:
                self._gate.suspect(map(session_of, wanted))
                await self._commit_apart(batch, some)
            except (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError):
                # One of them can't be stored, and none was. Each alone shows which.
                await self._commit_apart(batch, some)
            except DatabaseUnavailableError as error:
                for place in places:
                    if place not in batch.outcomes:
                        batch.put_off(place, error)
                return
            else:
                batch.outcomes |= dict(zip(some, outcomes, strict=True))

    async def _commit_apart(self, batch: _Batch, places: Iterable[int]) -> None:
        async def commit(place: int) -> None:
            batch.outcomes[place] = await self._intake.commit(batch.submissions[place])

        await _line_by_line(batch, sorted(places), commit)


async def _line_by_line(batch: _Batch, places: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
    """Does the work for the turns of several sessions at a time, and for those of each session one after the other."""
    some = asyncio.Semaphore(LINES_AT_A_TIME)

    async def follow(line: Sequence[int]) -> None:
        async with some:
            for place in line:
                try:
                    await work(place)
                except SubmissionRefusedError as error:
                    batch.outcomes[place] = error
                except (NoPlaceError, DatabaseUnavailableError) as error:
                    batch.put_off(place, error)
                    return

    await asyncio.gather(*map(follow, batch.lines(places)))
