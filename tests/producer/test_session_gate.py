"""The gate of calls that wait for their session: few at a time, one per session, each for a limited time."""

import asyncio

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn, stand_still, until
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.producer import session_gate
from turnstile.producer.http.problems import Kind
from turnstile.producer.session_gate import SessionGate
from turnstile.producer.sharing.fair_places import NoPlaceError

A, B, C = ("t", "a"), ("t", "b"), ("t", "c")


class Call:
    """Enters the gate, and leaves it when the test says so."""

    def __init__(self, gate: SessionGate, session: tuple[str, str]) -> None:
        self.inside = False
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._stay(gate, session))

    async def _stay(self, gate: SessionGate, session: tuple[str, str]) -> None:
        async with gate.enter(session):
            self.inside = True
            await self._leave.wait()
        self.inside = False

    async def leave(self) -> None:
        self._leave.set()
        await self.task

    @staticmethod
    async def leave_all(*calls: "Call") -> None:
        """In the order in which they are admitted."""
        for call in calls:
            call._leave.set()
        await asyncio.gather(*(call.task for call in calls))


async def test_as_many_sessions_are_admitted_as_there_are_lanes() -> None:
    gate = SessionGate(2, 60.0)
    first, second, third = Call(gate, A), Call(gate, B), Call(gate, C)
    await until(lambda: first.inside and second.inside)
    assert not third.inside

    await first.leave()

    await until(lambda: third.inside)
    await second.leave()
    await third.leave()


async def test_a_session_occupies_one_lane_however_many_calls_it_has() -> None:
    gate = SessionGate(2, 60.0)
    calls = [Call(gate, A) for _ in range(5)]
    await until(lambda: any(call.inside for call in calls))

    other = Call(gate, B)

    await until(lambda: other.inside)
    assert [call.inside for call in calls].count(True) == 1
    for call in [*calls, other]:
        await call.leave()


async def test_locked_sessions_share_a_lane_of_their_own() -> None:
    gate = SessionGate(2, 60.0)
    for session in (A, B, C):
        with pytest.raises(RowLockedError):
            async with gate.enter(session):
                raise RowLockedError("locked")
    locked = [Call(gate, session) for session in (A, B, C)]
    await until(lambda: locked[0].inside)

    others = [Call(gate, ("t", "d")), Call(gate, ("t", "e"))]

    await until(lambda: all(call.inside for call in others))
    assert [call.inside for call in locked] == [True, False, False]
    for call in [*locked, *others]:
        await call.leave()


async def test_a_session_that_met_its_last_lock_long_ago_does_not_wait_for_locked_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = SessionGate(1, 60.0)
    for session in (A, B):
        with pytest.raises(RowLockedError):
            async with gate.enter(session):
                raise RowLockedError("locked")
    locked = Call(gate, A)
    await until(lambda: locked.inside)
    monkeypatch.setattr(session_gate, "LOCKED_SECONDS", 0.0)

    async with asyncio.timeout(10), gate.enter(B):
        pass

    await locked.leave()


async def test_a_suspect_that_has_met_no_lock_itself_does_not_wait_for_locked_sessions() -> None:
    gate = SessionGate(1, 60.0)
    with pytest.raises(RowLockedError):
        async with gate.enter(A):
            raise RowLockedError("locked")
    gate.suspect([B])
    locked = Call(gate, A)
    await until(lambda: locked.inside)

    async with asyncio.timeout(10), gate.enter(B):
        pass

    await locked.leave()


async def test_a_call_that_has_waited_too_long_is_refused_and_never_admitted() -> None:
    gate = SessionGate(1, 0.05)
    first, late, same = Call(gate, A), Call(gate, B), Call(gate, A)
    await until(lambda: late.task.done() and same.task.done())

    await first.leave()

    for refused in (late, same):
        assert isinstance(refused.task.exception(), DatabaseUnavailableError)
        assert not refused.inside
    async with asyncio.timeout(10), gate.enter(B), SessionGate(1, 0.05).enter(A):
        pass


async def test_the_tenants_take_turns() -> None:
    gate = SessionGate(1, 60.0)
    first = Call(gate, A)
    await until(lambda: first.inside)
    many = [Call(gate, ("t", f"s{number}")) for number in range(20)]
    await let_the_loop_turn(5)
    other = Call(gate, ("other", "a"))
    await let_the_loop_turn(5)

    await first.leave()
    await until(lambda: many[0].inside)
    await many[0].leave()

    await until(lambda: other.inside)
    await Call.leave_all(other, *many[1:])


async def test_a_tenants_calls_leave_places_at_the_gate_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_gate, "MOST_CALLS", 8)
    gate = SessionGate(1, 60.0)
    first = Call(gate, A)
    await until(lambda: first.inside)
    waiting = [Call(gate, ("t", f"s{number}")) for number in range(5)]
    await let_the_loop_turn(5)

    more, other = Call(gate, ("t", "more")), Call(gate, ("other", "a"))
    await until(more.task.done)

    assert refusal_of(more) is Kind.TOO_MANY_REQUESTS
    await Call.leave_all(first, *waiting, other)


async def test_a_session_has_a_limited_number_of_calls_at_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_gate, "MOST_OF_SESSION", 3)
    gate = SessionGate(2, 60.0)
    first = Call(gate, A)
    await until(lambda: first.inside)
    waiting = [Call(gate, A) for _ in range(2)]
    await let_the_loop_turn(5)

    more, other = Call(gate, A), Call(gate, B)
    await until(more.task.done)

    assert refusal_of(more) is Kind.TOO_MANY_REQUESTS
    await until(lambda: other.inside)
    await Call.leave_all(first, *waiting, other)


async def test_a_call_that_waits_too_long_behind_answered_ones_meets_overload() -> None:
    gate = SessionGate(1, 60.0)
    first, second = Call(gate, A), Call(gate, A)
    await until(lambda: first.inside)
    gate.patience_seconds = 0.05
    late = Call(gate, A)
    await let_the_loop_turn(5)
    await first.leave()

    await until(late.task.done)

    assert refusal_of(late) is Kind.TOO_MANY_REQUESTS
    await second.leave()


async def test_a_call_that_waits_while_the_process_is_late_itself_meets_overload() -> None:
    gate, response = SessionGate(1, 60.0), asyncio.Event()

    async def submit() -> None:
        async with gate.enter(A):
            await response.wait()
            # A driver takes some steps from the arrival of a response to its result.
            await let_the_loop_turn(20)

    submitting = [asyncio.create_task(submit()) for _ in range(2)]
    await let_the_loop_turn(5)
    gate.patience_seconds = 0.05
    late = Call(gate, A)
    await let_the_loop_turn(5)

    response.set()
    stand_still(0.1)
    await until(late.task.done)

    assert refusal_of(late) is Kind.TOO_MANY_REQUESTS
    await asyncio.gather(*submitting)


async def test_a_call_that_waits_too_long_for_a_locked_session_gets_the_error_of_the_lock() -> None:
    gate = SessionGate(1, 60.0)
    with pytest.raises(RowLockedError):
        async with gate.enter(A):
            raise RowLockedError("locked")
    first = Call(gate, A)
    await until(lambda: first.inside)
    gate.patience_seconds = 0.05

    late = Call(gate, A)
    await until(late.task.done)

    assert isinstance(late.task.exception(), RowLockedError)
    await first.leave()


def refusal_of(call: Call) -> Kind:
    error = call.task.exception()
    assert isinstance(error, NoPlaceError)
    return error.kind


async def test_a_waiting_call_that_is_cancelled_occupies_no_lane() -> None:
    gate = SessionGate(1, 60.0)
    first, gone = Call(gate, A), Call(gate, B)
    await until(lambda: first.inside)
    gone.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone.task
    await first.leave()

    async with asyncio.timeout(10), gate.enter(B):
        pass


@pytest.mark.parametrize("how", Cancel)
@pytest.mark.parametrize("session", [A, B], ids=["same session", "other session"])
async def test_a_call_that_is_cancelled_at_any_await_leaves_the_gate(session: tuple[str, str], how: Cancel) -> None:
    gate = SessionGate(1, 60.0)

    async def pass_through(session: tuple[str, str] = A) -> None:
        async with gate.enter(session):
            await let_the_loop_turn(3)

    async for _ in cancel_at_each_await(pass_through, how, lambda: pass_through(session)):
        async with asyncio.timeout(10):
            await pass_through(A)
            await pass_through(C)


async def test_a_session_is_a_suspect_from_a_lock_to_the_next_success() -> None:
    gate = SessionGate()

    for error in (RowLockedError("locked"), DatabaseUnavailableError("away")):
        with pytest.raises(type(error)):
            async with gate.enter(A):
                raise error
        assert set(gate.suspects) == {A}

    async with gate.enter(A):
        pass
    assert set(gate.suspects) == set()


async def test_a_suspect_whose_clients_do_not_come_back_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = SessionGate()
    gate.suspect([A])
    monkeypatch.setattr(session_gate, "SUSPECT_SECONDS", 0.0)

    gate.suspect([B])

    assert set(gate.suspects) == {B}
