"""How submits are batched, and what happens when one of their sessions is locked."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.factories import make_submission
from tests.support.metric_readings import rising
from tests.support.probes import let_the_loop_turn, until
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.producer import submit_intake as intake_module
from turnstile.producer.http.problems import Kind
from turnstile.producer.session_gate import SessionGate
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.producer.submit_intake import Intake
from turnstile.statements.submit import Submission


class Recording:
    """Records every submission, except those of locked sessions. Lists the sessions of each statement."""

    def __init__(self) -> None:
        self.locked: set[str] = set()
        self.statements: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()

    def decide_sampling(self, submission: Submission) -> Submission:
        return submission

    async def commit(self, submissions: Sequence[Submission]) -> list[Any]:
        sessions = sorted(submission.session_id for submission in submissions)
        self.statements.append(sessions)
        await self.open.wait()
        if self.locked & set(sessions):
            raise RowLockedError("locked")
        return [Recorded(submission) for submission in submissions]

    async def wake(self, submission: Submission, accepted: Any) -> bool:
        return True

    def trace(self, submission: Submission, accepted: Any, began_at: int) -> None:
        pass


class Recorded:
    """As much of an accepted turn as the log line needs."""

    replayed = merged = False
    execute_at = None

    def __init__(self, submission: Submission) -> None:
        self.turn_id, self.session_id = submission.turn_id, submission.session_id
        self.queue, self.trace = submission.queue, submission.trace


def make_intake(recording: Recording, gate: SessionGate | None = None, *, shared: bool = False) -> Intake:
    submitting: Any = recording
    hints: Any = None
    return Intake(Settings(), submitting, hints, gate or SessionGate(), shared=shared)


async def accept(intake: Intake, *sessions: str) -> list[bool]:
    """Whether each was accepted."""
    found = await asyncio.gather(
        *(intake.accept(make_submission("turns", session)) for session in sessions), return_exceptions=True
    )
    return [isinstance(one, Recorded) for one in found]


async def test_concurrent_submits_share_a_statement() -> None:
    recording = Recording()

    assert all(await accept(make_intake(recording), "a", "b", "a"))

    assert recording.statements == [["a", "a", "b"]]


async def test_a_batch_with_a_locked_session_is_recorded_one_by_one_without_it() -> None:
    recording = Recording()
    recording.locked.add("b")

    assert await accept(make_intake(recording), "a", "b", "c") == [True, False, True]

    assert recording.statements == [["a", "b", "c"], ["a"], ["b"], ["c"]]


async def test_a_session_of_a_refused_batch_is_in_no_other_while_it_is_recorded_alone() -> None:
    """The next batch would wait for the same lock."""

    class Holding(Recording):
        alone = 0

        async def commit(self, submissions: Sequence[Submission]) -> list[Any]:
            if len(submissions) == 1:
                self.alone += 1
                await may_end.wait()
            return await super().commit(submissions)

    may_end, recording = asyncio.Event(), Holding()
    recording.locked.add("b")
    intake = make_intake(recording)
    first = asyncio.create_task(accept(intake, "a", "b"))
    await until(lambda: recording.alone == 2)

    second = asyncio.create_task(accept(intake, "b", "c", "d"))
    await until(lambda: len(recording.statements) > 1)
    may_end.set()

    assert recording.statements[:2] == [["a", "b"], ["c", "d"]]
    assert (await first, await second) == ([True, False], [False, True, True])


async def test_a_locked_session_is_left_out_of_batches_until_a_turn_of_it_is_recorded() -> None:
    recording = Recording()
    recording.locked.add("b")
    intake = make_intake(recording)
    await accept(intake, "a", "b")
    recording.statements.clear()

    assert await accept(intake, "a", "b", "c") == [True, False, True]
    recording.locked.clear()
    assert await accept(intake, "b") == [True]
    assert await accept(intake, "a", "b") == [True, True]

    assert sorted(recording.statements[:2]) == [["a", "c"], ["b"]]
    assert recording.statements[2:] == [["b"], ["a", "b"]]


async def test_more_submits_than_may_be_in_progress_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MOST_UNDER_WAY", 3)
    recording = Recording()
    recording.open.clear()
    intake = make_intake(recording)
    waiting = asyncio.create_task(accept(intake, "a", "b", "c"))
    await until(lambda: recording.statements)

    with pytest.raises(NoPlaceError) as refused:
        await intake.accept(make_submission("turns", "d"))

    assert refused.value.kind is Kind.UNAVAILABLE
    recording.open.set()
    assert await waiting == [True] * 3
    assert await accept(intake, "d") == [True]


async def test_submits_of_one_tenant_leave_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MOST_UNDER_WAY", 8)
    recording = Recording()
    recording.open.clear()
    intake = make_intake(recording, shared=True)
    waiting = asyncio.create_task(accept(intake, *"abcdef"))
    await until(lambda: recording.statements)

    with pytest.raises(NoPlaceError) as refused:
        await intake.accept(make_submission("turns", "g"))
    other = asyncio.create_task(intake.accept(make_submission("turns", "a", tenant_id="other")))

    assert refused.value.kind is Kind.TOO_MANY_REQUESTS
    recording.open.set()
    assert await waiting == [True] * 6
    await other


async def test_a_submit_that_waits_for_its_session_is_not_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MOST_UNDER_WAY", 1)
    gate = SessionGate()
    intake = make_intake(Recording(), gate=gate)
    gate.suspect([("t", "a")])
    async with gate.enter(("t", "a")):
        waiting = asyncio.create_task(accept(intake, "a"))
        await let_the_loop_turn(5)

        assert await accept(intake, "b") == [True]

    assert await waiting == [True]


async def test_batches_have_turns_of_each_tenant_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_BATCH", 4)
    monkeypatch.setattr(intake_module, "LANES", 1)
    recording = Recording()
    recording.open.clear()
    intake = make_intake(recording)
    first = asyncio.create_task(accept(intake, "first"))
    await until(lambda: recording.statements)
    many = asyncio.create_task(accept(intake, *(f"s{number}" for number in range(20))))
    await let_the_loop_turn(5)
    other = asyncio.create_task(intake.accept(make_submission("turns", "theirs", tenant_id="other")))
    await let_the_loop_turn(5)

    recording.open.set()
    await asyncio.gather(first, many, other)

    assert "theirs" in recording.statements[1]


async def test_a_submit_during_an_outage_is_counted_as_failed() -> None:
    class Away(Recording):
        async def commit(self, submissions: Sequence[Submission]) -> list[Any]:
            raise DatabaseUnavailableError("away")

    with rising("turnstile_turns_submitted_total", queue="turns", result="failed"):
        assert await accept(make_intake(Away()), "a") == [False]


@pytest.mark.parametrize("how", Cancel)
async def test_a_submit_that_is_cancelled_at_any_await_is_not_under_way(
    how: Cancel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MOST_UNDER_WAY", 1)
    intake = make_intake(Recording())

    async for at in cancel_at_each_await(lambda: intake.accept(make_submission("turns", "cancelled")), how):
        await intake.accept(make_submission("turns", f"after-{at}"))
