"""A settle of what can't be stored: the turn fails once, and is not run again by one worker after another."""

from typing import Any

from tests.statements.calls import SUCCESS
from tests.support.claims import claimed, submit_turns
from tests.support.factories import make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.settling import Settler


async def test_text_that_has_no_encoding_fails_the_turn(settings: Settings, database: Database) -> None:
    await submit_turns(database, settings, "hi")
    turn = await claimed(database, settings)

    async def once(call: Any) -> Any:
        return await call()

    settler = Settler(settings, Handler(lambda *_: None), database, make_terms(settings), once)
    unencodable = Settlement(status=TurnStatus.SUCCEEDED, outcome=SUCCESS.outcome, reply="half a pair: \ud800")

    await settler.settle(turn, unencodable, HeartbeatEntry(None, None), more=False)

    [row] = await database.fetch("SELECT status, error_class, error FROM turns", {})
    assert (row["status"], row["error_class"]) == ("FAILED", "unstorable_reply")
    assert row["error"] == "Postgres refused the reply (UnicodeEncodeError)"
