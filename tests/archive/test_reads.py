"""Reads of archived turns, also if another tenant has a turn with the same id."""

from dataclasses import asdict
from typing import LiteralString

import pytest
from psycopg.rows import DictRow

from tests.archive.archiving import age, archive, claim_head, end_turn, in_table, settle_as, start_child
from tests.support.factories import make_submission
from turnstile.archive.reads import TurnKey
from turnstile.backends.postgres.database import Database, Parameters
from turnstile.config.settings import Settings
from turnstile.ops.turns.attempts import read_attempts
from turnstile.ops.turns.operator_turns import read_messages, read_turn_of_any
from turnstile.ops.turns.trace_tree import find_trace, read_trace
from turnstile.queries.turns import read_standings, read_turn, read_turns
from turnstile.statements.cancel import CanceledTurn, cancel_ahead
from turnstile.statements.submit import ParentClaim, submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.status import TurnStatus


async def test_a_turn_reads_the_same_before_and_after_it_is_archived(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(
        database, settings, content={"deep": [1, None]}, metadata={"a": None}, webhook_url="https://client.example/hook"
    )
    await database.fetch("UPDATE webhooks SET due_at = NULL, delivered_at = now()", {})
    await age(database)

    async def read() -> list[object]:
        return [
            await read_turn(database, "t", turn_id),
            await read_turns(database, [TurnKey("t", turn_id)]),
            await read_standings(database, [TurnKey("t", turn_id)]),
            await read_turn_of_any(database, turn_id),
            await read_attempts(database, "t", turn_id),
            await read_messages(database, "t", turn_id),
        ]

    before = await read()
    assert None not in before
    await archive(database)

    assert await in_table(database) == []
    assert await read() == before


async def test_the_state_of_an_archived_turn_is_read_without_its_messages(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)
    fetch, rows = database.fetch, list[DictRow]()

    async def recorded(statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        rows.extend(found := await fetch(statement, parameters))
        return found

    monkeypatch.setattr(database, "fetch", recorded)
    [standing] = await read_standings(database, [TurnKey("t", turn_id)])

    assert standing is not None
    assert rows == [asdict(standing)]


async def test_an_archived_turn_of_another_tenant_is_not_found(database: Database, settings: Settings) -> None:
    """Also without row-level security."""
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)

    assert await read_turns(database, [TurnKey("u", turn_id)]) == [None]
    assert await read_standings(database, [TurnKey("u", turn_id)]) == [None]
    assert await read_attempts(database, "u", turn_id) == []


async def test_a_cancel_of_an_archived_turn_finds_it_ended(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)

    met = await cancel_ahead(database, "t", turn_id, CancelReason.USER)

    assert met == CanceledTurn(TurnStatus.SUCCEEDED, requested=False, session_id="s")
    assert await database.fetch("SELECT 1 FROM chosen_ids", {}) == []


async def test_a_trace_includes_archived_turns(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    before = await read_trace(database, parent.trace_id)
    assert [(span.id, span.depth) for span in before] == [(parent.id, 0), (child, 1)]

    await database.fetch("UPDATE sessions SET updated_at = now() WHERE session_id = 'child'", {})
    await archive(database)
    assert await in_table(database) == [child]
    assert await read_trace(database, parent.trace_id) == before

    await database.fetch("UPDATE sessions SET updated_at = now() - interval '100 days'", {})
    await archive(database)
    assert await in_table(database) == []
    assert await read_trace(database, parent.trace_id) == before
    assert await find_trace(database, child) == parent.trace_id


async def test_a_trace_excludes_the_turn_of_another_tenant_with_an_archived_id(
    database: Database, settings: Settings
) -> None:
    parent, _ = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    before = await read_trace(database, parent.trace_id)
    await archive(database)
    again = make_submission(settings.queue, "o", tenant_id="u", turn_id=parent.id)
    await submit(database, [again], resend_seconds=60)
    theirs = await claim_head(database, settings, "o", tenant_id="u")
    claim_of_it = ParentClaim(theirs.id, theirs.fence, "dig")
    await submit(
        database, [make_submission(settings.queue, "dug", tenant_id="u", parent=claim_of_it)], resend_seconds=60
    )

    assert await read_trace(database, parent.trace_id) == before
    assert await find_trace(database, parent.id) == theirs.trace_id
