"""A turn that its claim ends is reported once, even if the response of Postgres is lost."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from tests.support.claims import claim_one, expire_leases, submit_turns
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.claim import CLAIM
from turnstile.worker.session_lock import SessionLock


class LosingClaims:
    """The database; the response to the first claim is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch_pipelined(self, statements: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
        rows = await self._database.fetch_pipelined(statements)
        if not self.lost and statements[0][0] == CLAIM:
            self.lost = True
            raise DatabaseUnavailableError("the response was lost")
        return rows


@pytest.mark.parametrize("on_failure", ["dead_letter", "halt"])
async def test_a_turn_that_the_claim_ends_is_reported_although_the_response_is_lost(
    database: Database, settings: Settings, lock: SessionLock, on_failure: str
) -> None:
    (queue,) = settings.queues
    settings = settings.model_copy(update={"queues": (queue.model_copy(update={"on_failure": on_failure}),)})
    await submit_turns(database, settings, "lost with its worker", "its heir")
    await claim_one(database, settings)
    await expire_leases(database)
    await database.fetch(
        "UPDATE turns SET crashes = %(crashes)s WHERE status = 'RUNNING'", {"crashes": queue.max_crashes - 1}
    )
    losing = LosingClaims(database)

    with processing(settings, cast("Database", losing), lock, "worker-b") as processor, capture_logs() as said:
        await processor.process(message_about(uuid4()))

    assert losing.lost
    (failed,) = [line for line in said if line["event"] == "turn.failed"]
    assert (failed["error_class"], failed["dead_letter"]) == ("crash_loop", on_failure == "dead_letter")
    halted = [line["turn_id"] for line in said if line["event"] == "turn.halted_session"]
    assert halted == ([failed["turn_id"]] if on_failure == "halt" else [])
    rows = await database.fetch("SELECT status, attempt, crashes FROM turns ORDER BY seq", {})
    heir = ("SUCCEEDED", 1, 0) if on_failure == "dead_letter" else ("PENDING", 0, 0)
    assert [tuple(row.values()) for row in rows] == [("FAILED", 1, queue.max_crashes), heir]
