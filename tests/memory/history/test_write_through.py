"""A history as it is continued: what is written through, late, lost or undone."""

from tests.support.conversations import FAILURE, Conversation, Reader, success
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import HistoryVersion


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


async def test_a_turn_that_was_not_answered_changes_nothing(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history)
    before = await talk.version()
    turn = await talk.begin("doomed")
    settled = await talk.end(turn, FAILURE)
    await reader.history.append(turn, settled.reply)

    assert await talk.version() == before
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == []


async def test_a_read_returns_the_history_of_its_own_version(reader: Reader, talk: Conversation) -> None:
    """As a handler whose turn has been taken over and answered by another worker."""
    await talk.exchange(reader.history, "one")
    before, table = await talk.version(), await talk.table()
    await talk.exchange(reader.history, "two")

    assert await reader.history.read("t", "s", before, 9) == table
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_the_next_turn_of_a_session_run_is_claimed_with_the_version_of_the_turn_before(
    reader: Reader, talk: Conversation
) -> None:
    await talk.submit("one")
    await talk.submit("two")
    first = await talk.claim()
    settled = await talk.end(first, success("1"), more=True)
    await reader.history.append(first, settled.reply)
    second = settled.next

    assert isinstance(second, ClaimedTurn)
    assert second.history_version == HistoryVersion(first.seq, first.claim_id) == await talk.version()
    assert await reader.history.read("t", "s", second.history_version, 9) == await talk.table()
    assert reader.asked == []


async def test_a_read_waits_for_an_append_under_way(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history, "one")
    turn = await talk.begin("two")
    table = await talk.table()
    reply = await talk.answer(turn)
    after = HistoryVersion(turn.seq, turn.claim_id)

    reader.history.begin_append(turn, reply)
    found = await reader.history.read("t", "s", after, 9)

    assert [one.content for one in found] == [*(one.content for one in table), "two", "ok"]
    assert reader.asked == []


async def test_appends_are_made_in_the_order_in_which_they_were_begun(reader: Reader, talk: Conversation) -> None:
    await talk.submit("one")
    await talk.submit("two")
    first = await talk.claim()
    settled = await talk.end(first, success("1"), more=True)
    assert isinstance(settled.next, ClaimedTurn)
    last = await talk.answer(settled.next)

    reader.history.begin_append(first, settled.reply)
    reader.history.begin_append(settled.next, last)

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == []


async def test_a_finished_append_is_forgotten(reader: Reader, talk: Conversation) -> None:
    turn = await talk.begin()

    reader.history.begin_append(turn, await talk.answer(turn))

    assert list(reader.history._appends) == [("t", "s")]
    await until(lambda: not reader.history._appends)


async def test_an_append_that_is_a_turn_late_changes_nothing(reader: Reader, talk: Conversation) -> None:
    first = await talk.begin("one")
    late = await talk.answer(first)
    await talk.exchange(reader.history, "two")
    await talk.read(reader.history)

    await reader.history.append(first, late)

    assert await talk.read(reader.history) == await talk.table()


async def test_a_history_of_turns_that_the_database_has_lost_is_not_served(
    reader: Reader, talk: Conversation, database: Database
) -> None:
    """A failover to a replica that lags behind, a restored backup, a development database made anew."""
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
