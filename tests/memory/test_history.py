"""The history of a session: what the table has, from Redis where it is there, whatever became of it there."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import redis.asyncio
from redis.crc import key_slot

import turnstile.memory.history
from tests.producer.api.cable import Cable, cable_to
from tests.support.conversing import FAILURE, Conversation, Reader, success
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.memory.history import History
from turnstile.memory.history_cache import LOAD
from turnstile.memory.history_entry import MAX_CONTENT_BYTES
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import NOTHING_SAID, HistoryVersion
from turnstile.worker.attempt.context import TurnContext, turn_for_handler

DEPTH = 8
LARGE = "x" * (MAX_CONTENT_BYTES + 1)


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A cache that is soon full."""
    return settings.model_copy(update={"history_messages": DEPTH})


@pytest.fixture
async def reader(settings: Settings, database: Database) -> AsyncIterator[Reader]:
    opened = Reader(settings, database)
    yield opened
    await opened.close()


@pytest.fixture
async def other(settings: Settings, database: Database) -> AsyncIterator[Reader]:
    """Another process."""
    opened = Reader(settings, database)
    yield opened
    await opened.close()


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def far(settings: Settings, database: Database, cable: Cable) -> AsyncIterator[Reader]:
    """A process that reaches Redis through the cable."""
    opened = Reader(settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{cable.port}"}), database)
    yield opened
    await opened.close()


def make_context(turn: ClaimedTurn, history: History) -> TurnContext:
    """What a handler reads its history with; it has nothing else."""

    async def outlast(call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()

    nothing = cast("Any", None)
    return TurnContext(
        turn, 60.0, outlast, history=history, memory=nothing, emitter=nothing, values=nothing, children=nothing
    )


@pytest.fixture
def talk(settings: Settings, database: Database) -> Conversation:
    return Conversation(settings, database)


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, for looking from outside."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def key(settings: Settings) -> str:
    return f"{settings.redis_prefix}history:session:{{t/s}}"


# --- read


async def test_nothing_is_asked_about_a_session_in_which_nothing_was_answered(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.begin()

    assert await talk.version() == NOTHING_SAID
    assert await talk.read(reader.history) == []
    assert (reader.asked, await keys.exists(key)) == ([], 0)


async def test_what_was_written_through_is_read_without_a_query(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history, "one", "first")
    await talk.exchange(reader.history, {"text": "two"}, ["second"])

    found = await talk.read(reader.history)

    assert [one.content for one in found] == ["one", "first", {"text": "two"}, ["second"]]
    assert found == await talk.table()
    assert reader.asked == []


@pytest.mark.parametrize("limit", [1, 2, 3, DEPTH])
async def test_a_limit_takes_the_end_of_it(reader: Reader, talk: Conversation, limit: int) -> None:
    for number in range(3):
        await talk.exchange(reader.history, number, -number)

    assert await talk.read(reader.history, limit) == await talk.table(limit)
    assert reader.asked == []


async def test_only_the_last_messages_are_kept_and_who_wants_more_is_answered_from_the_table(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    for number in range(DEPTH):
        await talk.exchange(reader.history, number, -number)

    assert await keys.llen(key) == 1 + DEPTH
    assert await talk.read(reader.history, DEPTH) == await talk.table(DEPTH)
    assert reader.asked == []
    assert await talk.read(reader.history, DEPTH + 1) == await talk.table(DEPTH + 1)
    assert reader.asked == ["read"]


async def test_an_entry_of_a_process_that_keeps_less_is_not_taken_for_the_whole(
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
    "content",
    [None, "", [], {}, [[], {}], 1e22, -0.0, 2**60, 0.1, 'é\u2028\n"\\', {"b": 1, "aa": {"z": [], "y": {}}}],
    ids=repr,
)
@pytest.mark.parametrize("kept", [True, False], ids=["written through", "rebuilt"])
async def test_every_json_comes_back_as_the_table_gives_it(
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


async def test_large_contents_stay_in_the_table_and_are_read_from_there(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history, LARGE, LARGE[::-1])
    await talk.exchange(reader.history, "small", "x" * (MAX_CONTENT_BYTES - 2))

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["contents"]
    assert await keys.memory_usage(key) < 2 * MAX_CONTENT_BYTES

    await keys.delete(key)
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild", "contents"]
    assert await talk.read(reader.history, 2) == await talk.table(2)
    assert reader.asked == []
    assert await keys.memory_usage(key) < 2 * MAX_CONTENT_BYTES


async def test_sessions_and_tenants_are_kept_apart(
    reader: Reader, talk: Conversation, settings: Settings, database: Database
) -> None:
    elsewhere = Conversation(settings, database, "another")
    await talk.exchange(reader.history, "here")
    await elsewhere.exchange(reader.history, "there")

    assert [one.content for one in await elsewhere.read(reader.history)] == ["there", "ok"]
    assert await reader.history.read("another tenant", "s", await talk.version(), 9) == []


# --- stale, lost, rebuilt


async def test_what_is_missing_is_rebuilt_once(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)

    assert await talk.read(reader.history) == await talk.table()
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild"]


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


@pytest.mark.parametrize("planted", ["said by nobody", object()], ids=["JSON", "no JSON"])
async def test_what_a_handler_does_to_its_input_is_not_what_was_said(
    reader: Reader, talk: Conversation, planted: object
) -> None:
    await talk.exchange(reader.history)
    turn = await talk.begin({"a": 1, "deep": {"b": [2]}})
    seen = make_context(turn, reader.history)

    for given in (turn_for_handler(turn).input, (await seen.history())[-1].content):
        given["a"] = given["deep"]["b"][0] = planted
    await reader.history.append(turn, await talk.answer(turn))

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == []


async def test_what_a_handler_does_to_its_history_is_not_what_the_next_look_finds(
    reader: Reader, talk: Conversation
) -> None:
    seen = make_context(await talk.begin({"a": 1}), reader.history)

    (await seen.history())[-1].content["a"] = 2

    assert [one.content for one in await seen.history()] == [{"a": 1}]


async def test_a_turn_that_was_not_answered_changes_nothing(reader: Reader, talk: Conversation) -> None:
    await talk.exchange(reader.history)
    before = await talk.version()
    turn = await talk.begin("doomed")
    settled = await talk.end(turn, FAILURE)
    await reader.history.append(turn, settled.reply)

    assert await talk.version() == before
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == []


async def test_a_reader_is_shown_the_history_of_his_own_version(reader: Reader, talk: Conversation) -> None:
    """As a handler whose turn has been taken over and answered by somebody else."""
    await talk.exchange(reader.history, "one")
    before, table = await talk.version(), await talk.table()
    await talk.exchange(reader.history, "two")

    assert await reader.history.read("t", "s", before, 9) == table
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_the_next_turn_of_a_drain_is_claimed_with_what_the_one_before_it_made(
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


async def test_a_read_waits_for_what_is_being_appended(reader: Reader, talk: Conversation) -> None:
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


async def test_nothing_is_kept_of_an_append_that_is_made(reader: Reader, talk: Conversation) -> None:
    turn = await talk.begin()

    reader.history.begin_append(turn, await talk.answer(turn))

    assert list(reader.history._appends) == [("t", "s")]
    await until(lambda: not reader.history._appends)


async def test_an_answer_late_by_a_turn_spoils_nothing(reader: Reader, talk: Conversation) -> None:
    first = await talk.begin("one")
    late = await talk.answer(first)
    await talk.exchange(reader.history, "two")
    await talk.read(reader.history)

    await reader.history.append(first, late)

    assert await talk.read(reader.history) == await talk.table()


async def test_a_database_that_has_lost_its_last_turns_is_not_shown_them(
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


async def test_an_entry_ends_by_itself(
    reader: Reader, talk: Conversation, settings: Settings, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    assert 0 < await keys.pttl(key) <= settings.history_ttl_seconds * 1000

    await keys.pexpire(key, 5_000)
    await talk.exchange(reader.history)
    assert await keys.pttl(key) > 5_000

    await keys.delete(key)
    await talk.read(reader.history)
    assert 0 < await keys.pttl(key) <= settings.history_ttl_seconds * 1000
    assert key_slot(key.encode()) == key_slot(f"{key}:rebuild".encode())


# --- several readers


async def test_of_many_readers_at_once_one_asks_the_table(
    reader: Reader,
    other: Reader,
    talk: Conversation,
    keys: redis.asyncio.Redis,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.memory.history, "PAUSES_SECONDS", (0.02,) * 500)
    await talk.exchange(reader.history)
    await keys.delete(key)
    version = await talk.version()

    reads = [one.history.read("t", "s", version, 9) for one in (reader, other) for _ in range(20)]
    found = await asyncio.gather(*reads)

    assert found == [await talk.table()] * 40
    assert reader.asked + other.asked == ["rebuild"]


async def test_whoever_waits_too_long_for_another_reader_asks_the_table(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    await keys.set(f"{key}:rebuild", "1", px=60_000)

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["read"]


async def test_a_rebuild_whose_reader_has_died_is_taken_up_by_another(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.memory.history, "PAUSES_SECONDS", (0.02,) * 500)
    await talk.exchange(reader.history)
    await keys.delete(key)
    await keys.set(f"{key}:rebuild", "1", px=100)

    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild"]


async def test_a_rebuild_does_not_overwrite_what_is_newer(
    reader: Reader, other: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history, "one")
    await keys.delete(key)
    reader.watched.open.clear()
    slow = asyncio.create_task(talk.read(reader.history))
    await until(lambda: reader.watched.asked)
    older = await talk.table()
    await talk.answer(await talk.begin("two"))
    # As two seconds later.
    await keys.delete(f"{key}:rebuild")
    await talk.read(other.history)
    assert other.asked == ["rebuild"]

    reader.watched.open.set()

    assert await slow == older
    assert await talk.read(other.history) == await talk.table()
    assert other.asked == []


async def test_a_reader_who_goes_takes_nothing_from_the_others(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    reader.watched.open.clear()
    first, second = (asyncio.create_task(talk.read(reader.history)) for _ in range(2))
    await until(lambda: reader.watched.asked)

    first.cancel()
    reader.watched.open.set()

    assert await second == await talk.table()
    assert reader.asked == ["rebuild"]
    assert first.cancelled()


async def test_an_outage_of_the_database_is_told_and_leaves_nothing_behind(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    reader.watched.failure = DatabaseUnavailableError("away")
    with pytest.raises(DatabaseUnavailableError):
        await talk.read(reader.history)

    reader.watched.failure = None

    assert await talk.read(reader.history) == await talk.table()


# --- Redis away, or strange


async def test_with_redis_away_a_history_costs_a_query(far: Reader, cable: Cable, talk: Conversation) -> None:
    await cable.cut()
    await talk.exchange(far.history, "one")
    await talk.exchange(far.history, "two")

    assert await talk.read(far.history) == await talk.table()
    assert far.asked == ["read"]


@pytest.mark.silent_redis
async def test_a_silent_redis_holds_nobody_up_for_long(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history)
    cable.silent = True
    began = time.monotonic()

    for _ in range(20):
        assert await talk.read(far.history) == await talk.table()

    # Each of them alone would have waited for a tenth of a lease.
    assert time.monotonic() - began < 20
    assert set(far.asked) == {"read"}


async def test_a_restarted_redis_is_used_again(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history)
    await cable.cut()
    assert await talk.read(far.history) == await talk.table()
    await cable.plug_in()

    async def read_from_redis() -> bool:
        assert await talk.read(far.history) == await talk.table()
        return far.asked == []

    await until(read_from_redis)


async def test_a_write_through_whose_answer_was_lost_counts(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history, "one")
    cable.lose_after = b"LTRIM"
    await talk.exchange(far.history, "two")

    async def read_from_redis() -> bool:
        assert await talk.read(far.history) == await talk.table()
        return far.asked == []

    await until(read_from_redis)


@pytest.mark.parametrize("stranger", ["string", "other list", "other version"])
async def test_what_is_not_ours_is_never_served(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str, stranger: str
) -> None:
    await talk.exchange(reader.history)
    header = await keys.lindex(key, 0)
    await keys.delete(key)
    match stranger:
        case "string":
            await keys.set(key, "x")
        case "other list":
            await keys.rpush(key, "x", "y")
        case _:
            await keys.rpush(key, str(header), "what a later version of this program writes")

    assert await talk.read(reader.history) == await talk.table()
    await talk.exchange(reader.history, "goes on")
    assert await talk.read(reader.history) == await talk.table()


async def test_a_command_that_is_refused_fails_alone(
    reader: Reader, talk: Conversation, settings: Settings, database: Database, keys: redis.asyncio.Redis, key: str
) -> None:
    elsewhere = Conversation(settings, database, "another")
    await talk.exchange(reader.history)
    await elsewhere.exchange(reader.history)
    versions = [await talk.version(), await elsewhere.version()]
    await keys.set(key, "no list")

    found = await asyncio.gather(
        *(reader.history.read("t", name, version, 9) for name, version in zip(["s", "another"], versions, strict=True))
    )

    assert found == [await talk.table(), await elsewhere.table()]
    assert reader.asked == ["read"]


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
    run_many, counts = history._cache._run_many, list[int]()

    async def counted(commands: Any) -> Any:
        assert {command[1] for command in commands} == {LOAD}
        counts.append(len(commands))
        return await run_many(commands)

    history._cache._run._flush = counted
    return counts
