"""A parent and its children on the real Postgres, each step by hand."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.handlers.child import Child
from turnstile.statements.claim import claim
from turnstile.statements.revive import revive
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.attempt.children import Children

RETRY = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, fault=True, error_class="Boom")
FAILURE = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class="Boom", error="x")
PARENT = "s"


class NoQueues:
    """SQS is away."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, *_: Any) -> None:
        self.asked += 1
        raise QueueUnavailableError("away")


async def straight(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


class Family:
    """A parent and its children, each step by hand."""

    def __init__(self, database: Database, settings: Settings, intake: ChildIntake) -> None:
        self.database = database
        self.settings = settings
        self._intake = intake

    async def claim(self, session: str = PARENT) -> ClaimedTurn:
        (turn,) = await claim(self.database, make_terms(self.settings), [make_claim(session)])
        assert isinstance(turn, ClaimedTurn)
        return turn

    def run(self, turn: ClaimedTurn) -> Children:
        """A run of the parent's handler."""
        return Children(turn, self.database, straight, self._intake)

    async def start(self, run: Children, content: Any = "work", **options: Any) -> Child:
        return await run.submit(content, **options)

    async def settle(self, turn: ClaimedTurn, settlement: Settlement) -> TurnStatus:
        request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        (settled,) = await settle(self.database, make_terms(self.settings), [request])
        assert isinstance(settled, Settled)
        return settled.status

    async def join(self, turn: ClaimedTurn, *children: Child, policy: JoinPolicy = JoinPolicy.ALL) -> None:
        """The parent's claim ends; it waits."""
        joining = Settlement(
            status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
            joining=tuple(child.id for child in children), join_policy=policy,
        )  # fmt: skip
        await self.settle(turn, joining)

    async def end(self, child: Child, settlement: Settlement | None = None) -> None:
        """A worker answers the child, or fails, and wakes nobody."""
        reply = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=f"reply of {child.key}")
        await self.settle(await self.claim(child.session_id), settlement or reply)

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        (row,) = await self.database.fetch(
            "SELECT *, execute_at <= clock_timestamp() AS due FROM turns WHERE id = %(id)s", {"id": turn_id}
        )
        return row

    async def redrive(self, turn: ClaimedTurn) -> ClaimedTurn:
        await revive(
            self.database,
            [(turn.id, turn.generation)],
            [start_trace(1)],
            expires_in_seconds=[900.0],
            resend_seconds=60.0,
        )
        return await self.claim()
