"""The reply is stored as it was when it was checked, even if the handler's task still changes it."""

from collections.abc import Sequence
from typing import Any, cast

from tests.support.factories import make_submission
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.handlers.handler import Handler
from turnstile.queries.session_messages import read_history
from turnstile.statements.settle import SETTLE
from turnstile.statements.submit import submit
from turnstile.worker.session_lock import SessionLock


class Meddling:
    """The database, away for the first settle; the reply is changed meanwhile."""

    def __init__(self, database: Database, reply: Any) -> None:
        self._database = database
        self._reply = reply
        self.meddled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch_pipelined(self, statements: Sequence[Any]) -> list[Any]:
        """As `Database.fetch_pipelined`."""
        if statements[0][0] is SETTLE and not self.meddled:
            self.meddled = True
            self._reply["say"][0] = object()
            raise DatabaseUnavailableError("away")
        return await self._database.fetch_pipelined(statements)


async def test_a_repeated_settle_stores_the_checked_reply(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    wanted = make_submission(settings.queue, "s")
    await submit(database, [wanted], resend_seconds=600)
    reply = {"say": ["hi"]}
    meddling = Meddling(database, reply)

    with processing(settings, cast("Database", meddling), lock, "w", Handler(lambda *_: reply)) as processor:
        await processor.process(message_about(wanted.turn_id))

    assert meddling.meddled
    assert (await read_history(database, "t", "s", limit=1))[0].content == {"say": ["hi"]}
