"""The clients of a simulated run: they submit, repeat requests without a response, cancel, and record the responses."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

from tests.proof.checker.evidence import Call
from tests.proof.simulation.api import RefusedError, SimulatedApi, UnansweredError
from tests.proof.simulation.clock import VirtualLoop
from tests.proof.simulation.plan import TENANTS, Plan, Wish, make_wish
from turnstile.errors import DatabaseUnavailableError, SubmissionRefusedError
from turnstile.statements.cancel import cancel
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import chosen_prefix

TRIES = 40
REFUSALS = 2
"""A refusal is an answer too, which the repeats must get again."""
LOST_ANSWERS = 0.03
CANCELS = 0.06


class Clients:
    """All of them. `choose_api` gives a process that a request may go to, or None."""

    def __init__(
        self, loop: VirtualLoop, plan: Plan, chance: Random, choose_api: Callable[[], SimulatedApi | None]
    ) -> None:
        self._loop = loop
        self._plan = plan
        self._chance = chance
        self._choose_api = choose_api
        self.history: list[Call] = []
        self.under_way = 0
        self._lost = LOST_ANSWERS if plan.kinds else 0.0

    def schedule(self) -> None:
        """Spreads the seed's turns over the time of faults, some in bursts."""
        left = self._plan.turns
        while left:
            many = min(left, self._chance.choice([1, 1, 1, 2, 5, 12]))
            at = self._loop.now + self._chance.uniform(0.5, self._plan.faulty_seconds)
            session = f"s{self._chance.randrange(self._plan.sessions)}"
            for _ in range(many):
                session = session if self._chance.random() < 0.7 else f"s{self._chance.randrange(self._plan.sessions)}"
                self._begin(at + self._chance.uniform(0.0, 0.3), self._submit(session))
            left -= many

    def _begin(self, at: float, work: Awaitable[None]) -> None:
        self.under_way += 1
        self._loop.call_in(self._loop.world, at, lambda: self._loop.create_task(self._counted(work)))

    async def _counted(self, work: Awaitable[None]) -> None:
        await work
        self.under_way -= 1

    async def _submit(self, session: str) -> None:
        chance = self._chance
        wish = make_wish(chance, self._plan, self._loop.now)
        tenant = TENANTS[sum(map(ord, session)) % len(TENANTS)]
        body: dict[str, Any] = {"input": wish.content}
        if wish.scheduled_seconds is not None:
            body["execute_at"] = datetime.fromtimestamp(self._loop.now + wish.scheduled_seconds, UTC).isoformat()
        if wish.max_attempts is not None:
            body["max_attempts"] = wish.max_attempts
        if wish.timeout_seconds is not None:
            body["timeout_seconds"] = wish.timeout_seconds
        if wish.on_busy is not None:
            body["on_busy"] = wish.on_busy
        key, header = None, None
        dice = chance.random()
        if dice < 0.6:
            key = header = f"k-{chance.getrandbits(64):016x}"
        elif dice < 0.75 and wish.on_busy != "merge":
            chosen = int(chosen_prefix(tenant), 16) << 80 | chance.getrandbits(80)
            body["turn_id"] = str(UUID(int=chosen, version=4))
            key = f"turn:{body['turn_id']}"
        call = Call(
            client=f"client-{session}", op="submit", at=0.0, until=0.0, outcome="", tenant=tenant, session=session,
            key=key, content=wish.content,
        )  # fmt: skip

        async def work(api: SimulatedApi) -> Any:
            return await api.submit(tenant, session, body, header)

        if key is not None and self._plan.kinds and chance.random() < 0.05:
            for _ in range(2):
                self._begin(self._loop.now, self._repeat(call, work, 1))
        tries = REFUSALS if wish.on_busy == "reject" else TRIES
        await self._repeat(call, work, tries if key is not None else 1, wish)

    async def _repeat(
        self, call: Call, work: Callable[[SimulatedApi], Awaitable[Any]], tries: int, wish: Wish | None = None
    ) -> None:
        for _ in range(tries):
            accepted = await self._ask(call, work)
            if accepted is not None:
                if wish is not None and self._plan.kinds and self._chance.random() < CANCELS:
                    await self._cancel(call, accepted.turn_id)
                return
            await self._loop.pause(self._chance.uniform(0.1, 1.5))

    async def _cancel(self, submitted: Call, turn_id: UUID) -> None:
        await self._loop.pause(self._chance.choice([0.0, 0.1, 1.0, 5.0]) * self._chance.random())
        call = replace(submitted, op="cancel", key=None, content=None, turn_id=str(turn_id))

        async def work(api: SimulatedApi) -> Any:
            met = await cancel(api.database, submitted.tenant, turn_id, CancelReason.USER)
            if met is not None and met.woken is not None:
                await api.sending.send(*met.woken)
            return met

        for _ in range(3):
            if await self._ask(call, work) is not None:
                return

    async def _ask(self, call: Call, work: Callable[[SimulatedApi], Awaitable[Any]]) -> Any:
        """The answer if there was one. Whatever happens, the history says what was asked and what was known after."""
        begun = self._loop.now
        api = self._choose_api()
        answer, told = None, call
        try:
            if api is None:
                raise RefusedError
            answer = await api.ask(work, answered=self._chance.random() >= self._lost)
            outcome = "ok"
            if call.op == "submit":
                told = replace(call, turn_id=str(answer.turn_id))
            elif answer is not None:
                told = replace(call, status=answer.status.value)
        except (UnansweredError, DatabaseUnavailableError):
            outcome = "unknown"
        except RefusedError:
            outcome = "refused"
        except SubmissionRefusedError:
            outcome = "fail"
        if outcome != "refused":
            # A refused connection is no request: a repeat, without a key too, is a first request.
            self.history.append(replace(told, at=begun, until=self._loop.now, outcome=outcome))
        return answer
