"""How the turns of a batch are committed: together, in the order of each session, and each with an outcome of its own."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from tests.support.factories import make_submission
from tests.support.probes import let_the_loop_turn
from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.config.settings import Settings
from turnstile.errors import (
    DatabaseUnavailableError,
    IdempotencyMismatchError,
    RowLockedError,
    UnstorableContentError,
)
from turnstile.producer import batch_intake as batches
from turnstile.producer.batch_intake import BatchIntake
from turnstile.producer.session_gate import SessionGate
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.producer.submit_intake import Intake
from turnstile.statements.submit import Accepted, Submission
from turnstile.statements.submit_on_busy import OnBusyResult
from turnstile.turn.on_busy import OnBusy

CALLER = Caller("t", Role.SUBMIT, "key")


class Recording:
    """Records the contents of each statement. Contents may be refused, fail, or not be storable; sessions may be locked."""

    def __init__(self) -> None:
        self.statements: list[list[str]] = []
        self.woken: list[str] = []
        self.locked: set[str] = set()
        self.refused: set[str] = set()
        self.unstorable: set[str] = set()
        self.away_after = 1000

    def decide_sampling(self, submission: Submission) -> Submission:
        return submission

    async def commit(self, submissions: Sequence[Submission]) -> list[Any]:
        # Other calls go on while Postgres works.
        await let_the_loop_turn(1)
        contents = [one.content for one in submissions]
        if len(self.statements) >= self.away_after:
            raise DatabaseUnavailableError("away")
        if self.locked & {one.session_id for one in submissions}:
            raise RowLockedError("locked")
        if self.unstorable & set(contents):
            raise UnstorableContentError if len(contents) == 1 else psycopg.DataError
        self.statements.append(contents)
        return [IdempotencyMismatchError("k") if one.content in self.refused else accept(one) for one in submissions]

    async def commit_on_busy(self, submission: Submission) -> OnBusyResult:
        [answer] = await self.commit([submission])
        return OnBusyResult(answer, asked=[], canceled=[])

    async def wake(self, submission: Submission, accepted: Any) -> bool:
        self.woken.append(submission.content)
        return True

    def trace(self, submission: Submission, accepted: Any, began_at: int) -> None:
        pass

    @property
    def order(self) -> list[str]:
        return [content for statement in self.statements for content in statement]


class NoHints:
    async def publish(self, turns: Any) -> None:
        pass

    async def tell_watchers(self, *_: Any) -> None:
        pass


def accept(submission: Submission) -> Accepted:
    at: Any = None
    return Accepted(
        turn_id=submission.turn_id, session_id=submission.session_id, queue=submission.queue, execute_at=None, expires_at=at,
        created_at=at, trace=submission.trace, replayed=False, wake=True,
    )  # fmt: skip


def make_intake(recording: Recording) -> BatchIntake:
    submitting: Any = recording
    hints: Any = NoHints()
    gate = SessionGate()
    intake = Intake(Settings(), submitting, hints, gate, shared=False)
    return BatchIntake(intake, submitting, gate, None, shared=False)


async def submit(recording: Recording, *turns: str, **on_busy: OnBusy) -> list[str]:
    """The outcomes of turns `<session><number>`: `ok`, or the class of the error."""
    wanted = [make_submission("turns", turn[0], turn, on_busy=on_busy.get(turn, OnBusy.ENQUEUE)) for turn in turns]
    found = await make_intake(recording).accept(CALLER, wanted)
    assert [one.session_id for one in found if isinstance(one, Accepted)] == [
        turn[0] for turn, one in zip(turns, found, strict=True) if isinstance(one, Accepted)
    ]
    return ["ok" if isinstance(one, Accepted) else type(one).__name__ for one in found]


async def test_the_turns_of_a_batch_share_a_statement_and_each_is_woken() -> None:
    recording = Recording()

    assert await submit(recording, "a1", "b1", "a2") == ["ok"] * 3

    assert recording.statements == [["a1", "b1", "a2"]]
    assert sorted(recording.woken) == ["a1", "a2", "b1"]


async def test_a_large_batch_keeps_its_order_over_several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_BATCH", 2)
    recording = Recording()

    assert await submit(recording, "a1", "a2", "a3", "b1", "a4") == ["ok"] * 5

    assert recording.statements == [["a1", "a2"], ["a3", "b1"], ["a4"]]


async def test_a_turn_that_is_refused_harms_no_other() -> None:
    recording = Recording()
    recording.refused.add("a1")

    assert await submit(recording, "a1", "a2", "b1") == ["IdempotencyMismatchError", "ok", "ok"]

    assert sorted(recording.woken) == ["a2", "b1"]


async def test_a_turn_that_cannot_be_stored_harms_no_other() -> None:
    recording = Recording()
    recording.unstorable.add("a2")

    assert await submit(recording, "a1", "a2", "a3", "b1") == ["ok", "UnstorableContentError", "ok", "ok"]

    assert [turn for turn in recording.order if turn[0] == "a"] == ["a1", "a3"]


async def test_a_locked_session_holds_up_only_its_own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_BATCH", 2)
    recording = Recording()
    recording.locked.add("b")

    outcomes = await submit(recording, "a1", "b1", "b2", "a2", "c1")

    assert outcomes == ["ok", "RowLockedError", "RowLockedError", "ok", "ok"]
    assert recording.order == ["a1", "a2", "c1"]


async def test_nothing_is_committed_behind_a_statement_that_postgres_did_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been lost: what comes later in a session would overtake it when it is repeated."""
    monkeypatch.setattr(batches, "MAX_BATCH", 1)
    recording = Recording()
    recording.away_after = 1

    assert await submit(recording, "a1", "a2", "a3") == ["ok", "DatabaseUnavailableError", "DatabaseUnavailableError"]


async def test_a_session_with_a_policy_keeps_its_order() -> None:
    recording = Recording()

    outcomes = await submit(recording, "a1", "b1", "a2", "a3", "b2", a2=OnBusy.INTERRUPT)

    assert outcomes == ["ok"] * 5
    assert [turn for turn in recording.order if turn[0] == "a"] == ["a1", "a2", "a3"]
    assert ["b1", "b2"] in recording.statements


async def test_a_refusal_by_a_policy_harms_no_other() -> None:
    recording = Recording()
    recording.refused.add("a2")

    outcomes = await submit(recording, "a1", "a2", "a3", a2=OnBusy.REJECT)

    assert outcomes == ["ok", "IdempotencyMismatchError", "ok"]


async def test_more_batches_than_may_be_under_way_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_BATCHES", 0)
    recording = Recording()

    with pytest.raises(NoPlaceError):
        await submit(recording, "a1")

    assert recording.statements == []
