"""A session that is talked in: turns that are submitted, answered and written through, for the tests of its history."""

import asyncio
from collections.abc import Mapping
from typing import Any, LiteralString, cast
from uuid import uuid4

from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory.history import History
from turnstile.process.redis_clients import connect_memory
from turnstile.queries.session_messages import HISTORY_AS_TEXT, HISTORY_PAGE, read_history, read_version
from turnstile.statements.claim import claim
from turnstile.statements.settle import Settled, Settlement, SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import HistoryVersion, Message, StoredMessage
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

NAMES = {HISTORY_PAGE: "read", HISTORY_AS_TEXT: "rebuild"}


def success(reply: Any = "ok") -> Settlement:
    return Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)


FAILURE = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error="x")


class WatchedDatabase:
    """The database as a history asks it: what it was asked, and a gate before each answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.contents = database.contents
        self.asked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Any]:
        self.asked.append(NAMES[statement])
        await self.open.wait()
        return await self._database.fetch(statement, parameters)


class Reader:
    """One process that reads and continues histories."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.watched = WatchedDatabase(database)
        self.redis = connect_memory(settings)
        self.history = History(settings, cast("Database", self.watched), self.redis)

    async def close(self) -> None:
        await self.redis.close()

    @property
    def asked(self) -> list[str]:
        """What Postgres was asked for, since this was last looked at."""
        asked, self.watched.asked = self.watched.asked, []
        return asked


class Conversation:
    def __init__(self, settings: Settings, database: Database, session_id: str = "s") -> None:
        self.settings, self.database, self.session_id = settings, database, session_id

    async def submit(self, content: Any) -> None:
        submission = make_submission(self.settings.queue, self.session_id, content)
        await submit(self.database, [submission], resend_seconds=self.settings.resend_seconds)

    async def begin(self, content: Any = "hello") -> ClaimedTurn:
        await self.submit(content)
        return await self.claim()

    async def claim(self) -> ClaimedTurn:
        (turn,) = await claim(self.database, make_terms(self.settings), [make_claim(self.session_id)])
        assert isinstance(turn, ClaimedTurn)
        return turn

    async def end(self, turn: ClaimedTurn, settlement: Settlement, *, more: bool = False) -> Settled:
        request = SettleRequest(turn=turn, settlement=settlement, more=more, next_claim_id=uuid4())
        (settled,) = await settle(self.database, make_terms(self.settings), [request])
        assert isinstance(settled, Settled)
        return settled

    async def answer(self, turn: ClaimedTurn, reply: Any = "ok") -> StoredMessage:
        """Settles it as SUCCEEDED; what the history has of it."""
        settled = await self.end(turn, success(reply))
        assert settled.reply is not None
        return settled.reply

    async def exchange(self, history: History, content: Any = "hello", reply: Any = "ok") -> None:
        turn = await self.begin(content)
        await history.append(turn, await self.answer(turn, reply))

    async def version(self) -> HistoryVersion:
        version = await read_version(self.database, "t", self.session_id)
        assert version is not None
        return version

    async def table(self, limit: int = 100) -> list[Message]:
        return await read_history(self.database, "t", self.session_id, limit=limit)

    async def read(self, history: History, limit: int = 100) -> list[Message]:
        return await history.read("t", self.session_id, await self.version(), limit)
