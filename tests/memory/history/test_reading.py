"""A history as it is read: from Redis where it is there, and always what the table has."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest
import redis.asyncio

from tests.memory.history.conftest import DEPTH
from tests.support.conversations import Conversation, Reader
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory.history import LOAD, History
from turnstile.memory.history_entry import MAX_CONTENT_BYTES
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion
from turnstile.worker.attempt.attempt_context import TurnContext, turn_for_handler

LARGE = "x" * (MAX_CONTENT_BYTES + 1)


def make_context(turn: ClaimedTurn, history: History) -> TurnContext:
    """What a handler reads its history with; it has nothing else."""

    async def retry_while_down(call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()

    nothing = Mock()
    return TurnContext(
        turn, 60.0, retry_while_down, history=history, memory=nothing, emitter=nothing, values=nothing, children=nothing
    )


async def test_a_session_without_an_answered_turn_costs_no_query(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.begin()

    assert await talk.version() == EMPTY_HISTORY
    assert await talk.read(reader.history) == []
    assert (reader.asked, await keys.exists(key)) == ([], 0)


async def test_a_written_through_history_is_read_without_a_query(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history, "one", "first")
    await talk.exchange(reader.history, {"text": "two"}, ["second"])

    found = await talk.read(reader.history)

    assert [one.content for one in found] == ["one", "first", {"text": "two"}, ["second"]]
    assert found == await talk.table()
    assert reader.asked == []


async def test_only_the_last_messages_are_cached_and_more_are_read_from_the_table(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    for number in range(DEPTH):
        await talk.exchange(reader.history, number, -number)

    assert await keys.llen(key) == 1 + DEPTH
    assert await talk.read(reader.history, DEPTH) == await talk.table(DEPTH)
    assert reader.asked == []
    assert await talk.read(reader.history, DEPTH + 1) == await talk.table(DEPTH + 1)
    assert reader.asked == ["read"]


async def test_an_entry_of_a_process_that_caches_fewer_messages_is_not_the_whole_history(
    reader: Reader, talk: Conversation, settings: Settings, database: Database
) -> None:
    """While a new setting is rolled out."""
    for number in range(DEPTH):
        await talk.exchange(reader.history, number, -number)
    newer = Reader(settings.model_copy(update={"history_messages": 2 * DEPTH}), database)

    assert await talk.read(newer.history, 2 * DEPTH) == await talk.table(2 * DEPTH)
    assert newer.asked == ["read"]
    await newer.close()


@pytest.mark.parametrize(
    "content", [None, "", [[], {}, 1e22, -0.0, 2**60, 'é\u2028\n"\\', {"b": 1, "aa": {}}]], ids=repr
)
@pytest.mark.parametrize("kept", [True, False], ids=["written through", "rebuilt"])
async def test_each_json_value_is_read_as_from_the_table(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str, content: Any, kept: bool
) -> None:
    """To the text: a prompt that is made of it must not depend on where it came from."""
    await talk.exchange(reader.history, content, content)
    if not kept:
        await keys.delete(key)
        await talk.read(reader.history)

    found, table = await talk.read(reader.history), await talk.table()

    assert found == table
    assert json.dumps([one.content for one in found]) == json.dumps([one.content for one in table])
    assert "read" not in reader.asked


@pytest.mark.parametrize("kept", [True, False], ids=["written through", "rebuilt"])
async def test_an_entry_ends_before_a_large_content(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str, kept: bool
) -> None:
    await talk.exchange(reader.history, "small", "small")
    await talk.exchange(reader.history, LARGE, "x" * (MAX_CONTENT_BYTES - 2))
    if not kept:
        await keys.delete(key)
        await talk.read(reader.history)

    assert await keys.llen(key) == 2
    assert reader.asked == ([] if kept else ["rebuild", "read"])
    assert await talk.read(reader.history, 1) == await talk.table(1)
    assert reader.asked == []
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_a_first_reply_that_is_large_is_read_from_the_table(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history, "small", LARGE)

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_sessions_and_tenants_are_kept_apart(
    reader: Reader, talk: Conversation, settings: Settings, database: Database
) -> None:
    elsewhere = Conversation(settings, database, "another")
    await talk.exchange(reader.history, "here")
    await elsewhere.exchange(reader.history, "there")

    assert [one.content for one in await elsewhere.read(reader.history)] == ["there", "ok"]
    assert await reader.history.read("another tenant", "s", await talk.version(), 9) == []


async def test_a_handler_that_changes_its_input_does_not_change_the_history(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history)
    turn = await talk.begin({"a": 1, "deep": {"b": [2]}})
    seen = make_context(turn, reader.history)

    for given in (turn_for_handler(turn).input, (await seen.history())[-1].content):
        given["a"] = given["deep"]["b"][0] = object()
    await reader.history.append(turn, await talk.answer(turn))

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == []


async def test_reads_at_the_same_moment_share_a_round_trip(
    reader: Reader, settings: Settings, database: Database, keys: redis.asyncio.Redis
) -> None:
    talks = [Conversation(settings, database, f"s{number}") for number in range(5)]
    versions: list[HistoryVersion] = []
    for talk in talks:
        await talk.exchange(reader.history)
        versions.append(await talk.version())
    pipelines = _count_pipelines(reader.history)

    await asyncio.gather(
        *(reader.history.read("t", talk.session_id, version, 9) for talk, version in zip(talks, versions, strict=True))
    )

    assert pipelines == [5]


def _count_pipelines(history: History) -> list[int]:
    """How many commands each pipeline had, from now on."""
    run_many, counts = history._run_many, list[int]()

    async def counted(commands: Any) -> Any:
        assert {command[1] for command in commands} == {LOAD}
        counts.append(len(commands))
        return await run_many(commands)

    history._run._flush = counted
    return counts
