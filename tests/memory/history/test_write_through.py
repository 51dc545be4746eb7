"""A history as it is continued: what is written through, late, lost or undone."""

from tests.support.conversations import Conversation, Reader, success
from turnstile.backends.postgres.database import Database
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_an_entry_whose_write_through_was_lost_is_not_served(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history)
    await talk.answer(await talk.begin("lost"))

    assert await talk.read(reader.history) == await talk.table()
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild"]


async def test_a_write_through_after_a_lost_one_leaves_no_gap(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history, "one")
    await talk.answer(await talk.begin("lost"))
    await talk.exchange(reader.history, "three")

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild"]


async def test_a_read_returns_the_history_of_its_own_version(reader: Reader, talk: Conversation) -> None:
    """As a handler whose turn has been taken over and answered by another worker."""
    await talk.exchange(reader.history, "one")
    before, table = await talk.version(), await talk.table()
    await talk.exchange(reader.history, "two")

    assert await reader.history.read("t", "s", before, 9) == table
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_a_read_finds_the_appends_that_were_begun_before_it(reader: Reader, talk: Conversation) -> None:
    await talk.submit("one")
    await talk.submit("two")
    first = await talk.claim()
    settled = await talk.end(first, success("1"), more=True)
    assert settled.reply is not None
    assert isinstance(settled.next, ClaimedTurn)
    last = await talk.answer(settled.next)
    version, table = await talk.version(), await talk.table()

    reader.history.append(first, settled.reply)
    reader.history.append(settled.next, last)

    assert await reader.history.read("t", "s", version, 9) == table
    assert reader.asked == []


async def test_a_history_of_turns_that_the_database_has_lost_is_not_served(
    reader: Reader, talk: Conversation, database: Database
) -> None:
    """A failover to a replica that lags behind, a restored backup, a development database that was created again."""
    await talk.exchange(reader.history, "one")
    await talk.exchange(reader.history, "gone")
    for table in ("messages", "turn_attempts"):
        await database.fetch(f"DELETE FROM {table} WHERE turn_id = (SELECT id FROM turns WHERE seq = 2)", {})  # type: ignore[arg-type]
    await database.fetch("DELETE FROM turns WHERE seq = 2", {})
    await database.fetch("UPDATE sessions SET last_seq = 1", {})

    assert await talk.read(reader.history) == await talk.table()
    await talk.answer(await talk.begin("instead"))
    assert (await talk.version()).seq == 2
    assert [one.content for one in await talk.read(reader.history)] == ["one", "ok", "instead", "ok"]
