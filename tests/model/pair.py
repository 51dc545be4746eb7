"""The fake store and the real Postgres, asked the same at the same virtual time, and their answers made comparable."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar
from uuid import UUID

from tests.statements.calls import SETTLEMENTS
from tests.support.fakes.store_pair import FakeStand, PostgresStand, Snapshot, Stand
from turnstile.statements.renew_lease import Renewal, renew
from turnstile.statements.revive import Revived
from turnstile.statements.settle import Settled, SettleRequest
from turnstile.turn.claimed_turn import ClaimedTurn

Answer = TypeVar("Answer")
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Claims:
    """One claim in each store. The same but for the number of its fence: each sequence is at its own."""

    fake: ClaimedTurn
    real: ClaimedTurn

    def of(self, stand: Stand) -> ClaimedTurn:
        """The one of that store."""
        return self.fake if isinstance(stand, FakeStand) else self.real


def recent(things: Sequence[Thing], ago: int) -> Thing:
    """What came so many before the last; from the end again where there are not so many."""
    return things[-1 - ago % len(things)]


@dataclass(frozen=True, slots=True)
class Asked:
    """One settle of a batch, for either store."""

    claims: Claims
    how: str
    more: bool
    next_claim_id: UUID

    def of(self, stand: Stand) -> SettleRequest:
        """With that store's fence."""
        return SettleRequest(
            turn=self.claims.of(stand),
            settlement=SETTLEMENTS[self.how],
            more=self.more,
            next_claim_id=self.next_claim_id,
        )


class Pair:
    """Both stores. Synchronous, because a Hypothesis machine is."""

    def __init__(self, runner: asyncio.Runner, real: PostgresStand) -> None:
        self._runner = runner
        self.real = real
        self.fake = FakeStand()

    def reset(self) -> None:
        """Both empty, both clocks at their start."""
        self.fake = FakeStand()
        self._runner.run(self.real.reset())

    def ask(self, call: Callable[[Stand], Awaitable[Answer]]) -> tuple[Answer, Answer]:
        """The answers of the fake and of Postgres, which have been found the same."""

        async def both() -> tuple[Answer, Answer]:
            return await call(self.fake), await call(self.real)

        fake, real = self._runner.run(both())
        _compare(fake, real)
        return fake, real

    def renew(self, claims: Sequence[Claims], lease_seconds: float) -> None:
        """`statements.renew_lease.renew` in both."""

        async def of(stand: Stand) -> list[Renewal]:
            turns = [claim.of(stand) for claim in claims]
            # Without the clock: each has its own.
            return (await renew(stand.database, [(turn.id, turn.fence) for turn in turns], lease_seconds)).rows

        self.ask(of)

    def snapshots(self) -> tuple[Snapshot, Snapshot]:
        """All tables of both."""

        async def both() -> tuple[Snapshot, Snapshot]:
            return await self.fake.snapshot(), await self.real.snapshot()

        return self._runner.run(both())


def _compare(fake: Any, real: Any) -> None:
    fake, real = comparable(fake), comparable(real)
    assert fake == real, f"the fake answers {fake}, Postgres {real}"


def comparable(answer: Any) -> Any:
    """Without the numbers of fences, and rows that come in no order in one of their own."""
    match answer:
        case ClaimedTurn():
            return replace(answer, fence=0)
        case Settled():
            return Settled(answer.status, comparable(answer.next))
        case [Renewal(), *_]:
            return [replace(one, fence=place) for place, one in enumerate(sorted(answer, key=_by_claim))]
        case [Revived(), *_]:
            return sorted(answer, key=lambda one: one.message.wake_up.turn_id)
        case [{"id": _}, *_]:
            return sorted(({**row, "fence": 0} for row in answer), key=itemgetter("id"))
        case list():
            return [comparable(one) for one in answer]
        case _:
            # Refusals are exceptions, which are equal to nothing but themselves.
            return repr(answer) if isinstance(answer, Exception) else answer


def differences(fake: Sequence[dict[str, Any]], real: Sequence[dict[str, Any]]) -> list[Any]:
    """What is not the same in two tables: how many rows, or which columns of which."""
    if len(fake) != len(real):
        return [(len(fake), len(real))]
    return [
        (place, name, mine.get(name), theirs[name])
        for place, (mine, theirs) in enumerate(zip(fake, real, strict=True))
        for name in theirs
        if name not in mine or mine[name] != theirs[name]
    ]


def _by_claim(renewal: Renewal) -> tuple[Any, int]:
    return renewal.id, renewal.fence
