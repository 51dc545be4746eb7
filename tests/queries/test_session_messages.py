"""The statements of the history leave out what is not a message. What they return otherwise: tests/statements/test_settle.py."""

import pytest

from tests.support.claims import claimed, settle_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.session_messages import read_history, read_history_as_text


async def test_a_partial_reply_is_not_in_the_history_also_of_an_answered_turn(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claimed(database, settings))
    await database.fetch(
        "INSERT INTO messages (turn_id, ordinal, role, kind, content) SELECT id, 9, 'assistant', 'partial', '1' FROM turns",
        {},
    )

    shown = await read_history(database, "t", "s", limit=9)
    stored = await read_history_as_text(database, "t", "s", limit=9, before_seq=9, max_bytes=100)

    assert [one.ordinal for one in shown] == [one.ordinal for one in reversed(stored)] == [0, 1]


@pytest.mark.parametrize("tenant", ["t", "other"])
async def test_a_history_is_that_of_one_tenant_also_without_row_level_security(
    database: Database, settings: Settings, tenant: str
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claimed(database, settings))

    shown = await read_history(database, tenant, "s", limit=9)
    stored = await read_history_as_text(database, tenant, "s", limit=9, before_seq=9, max_bytes=100)

    assert [len(shown), len(stored)] == ([2, 2] if tenant == "t" else [0, 0])
