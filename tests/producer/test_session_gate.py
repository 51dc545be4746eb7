"""The gate of submits that wait for their session: few at a time, one of a session, and none for long."""

import asyncio

import pytest

from tests.support.probes import until
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.session_gate import SessionGate

A, B, C = ("t", "a"), ("t", "b"), ("t", "c")


class Visit:
    """Somebody who goes in, and stays until he is told to leave."""

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


async def test_two_sessions_are_let_in_at_a_time() -> None:
    gate = SessionGate(2, 60.0)
    first, second, third = Visit(gate, A), Visit(gate, B), Visit(gate, C)
    await until(lambda: first.inside and second.inside)
    assert not third.inside

    await first.leave()

    await until(lambda: third.inside)
    await second.leave()
    await third.leave()


async def test_a_session_takes_one_lane_however_many_come() -> None:
    gate = SessionGate(2, 60.0)
    visits = [Visit(gate, A) for _ in range(5)]
    await until(lambda: any(visit.inside for visit in visits))

    other = Visit(gate, B)

    await until(lambda: other.inside)
    assert [visit.inside for visit in visits].count(True) == 1
    for visit in [*visits, other]:
        await visit.leave()


async def test_who_has_waited_long_enough_is_refused_and_never_let_in() -> None:
    gate = SessionGate(1, 0.05)
    first, late, same = Visit(gate, A), Visit(gate, B), Visit(gate, A)
    await until(lambda: late.task.done() and same.task.done())

    await first.leave()

    for refused in (late, same):
        assert isinstance(refused.task.exception(), DatabaseUnavailableError)
        assert not refused.inside
    async with asyncio.timeout(10), gate.enter(B), SessionGate(1, 0.05).enter(A):
        pass


async def test_who_is_cancelled_while_he_waits_takes_no_lane() -> None:
    gate = SessionGate(1, 60.0)
    first, gone = Visit(gate, A), Visit(gate, B)
    await until(lambda: first.inside)
    gone.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone.task
    await first.leave()

    async with asyncio.timeout(10), gate.enter(B):
        pass
