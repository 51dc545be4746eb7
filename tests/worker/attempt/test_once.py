"""`ctx.once`: done once per turn, whatever becomes of the attempt; and never on behalf of a claim that is over."""

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from tests.support.claims import claimed, expire_leases, settle_one, submit_turns
from tests.worker.attempt.child_turns import RETRY, straight
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.once import MAX_ALL_CHARACTERS, MAX_VALUE_CHARACTERS, RecordedValues, check_key
from turnstile.worker.attempt.outcome import ClaimLost
from turnstile.worker.attempt.reply import UnfitReplyError


async def _step() -> None:
    return


class Effect:
    """Something that must not be done twice, and how often it was."""

    def __init__(self, *results: Any) -> None:
        self._results = results
        self.times = 0

    async def __call__(self) -> Any:
        self.times += 1
        result = self._results[min(self.times, len(self._results)) - 1]
        await asyncio.wait({asyncio.ensure_future(_step())})  # others get their turn in the middle of it
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    return await claimed(database, settings)


def values_of(turn: ClaimedTurn, database: Database, *, in_thread: bool = False) -> RecordedValues:
    return RecordedValues(turn, database, straight, in_thread=in_thread)


async def test_the_first_result_is_recorded_and_returned(turn: ClaimedTurn, database: Database) -> None:
    effect = Effect({"charged": 5})

    assert await values_of(turn, database).once("charge", effect) == {"charged": 5}

    [row] = await database.fetch("SELECT turn_id, key, value, fence FROM turn_values", {})
    assert row == {"turn_id": turn.id, "key": "charge", "value": {"charged": 5}, "fence": turn.fence}


async def test_a_later_attempt_gets_the_recorded_value(
    turn: ClaimedTurn, database: Database, settings: Settings
) -> None:
    effect = Effect("first", "second")
    await values_of(turn, database).once("charge", effect)
    await settle_one(database, settings, turn, RETRY)
    again = await claimed(database, settings)

    assert await values_of(again, database).once("charge", effect) == "first"
    assert effect.times == 1


async def test_simultaneous_calls_run_the_effect_once(turn: ClaimedTurn, database: Database) -> None:
    effect = Effect("first", "second")
    values = values_of(turn, database)

    given = await asyncio.gather(*[values.once("charge", effect) for _ in range(10)])

    assert (given, effect.times) == (["first"] * 10, 1)


async def test_an_effect_that_raised_is_not_recorded_and_may_be_repeated(turn: ClaimedTurn, database: Database) -> None:
    effect = Effect(ConnectionError("away"), "second")
    values = values_of(turn, database)
    with pytest.raises(ConnectionError):
        await values.once("charge", effect)

    assert await values.once("charge", effect) == "second"


async def test_in_a_handler_of_a_thread_a_plain_function_runs_in_a_thread(
    turn: ClaimedTurn, database: Database
) -> None:
    bound: ContextVar[str] = ContextVar("bound")
    bound.set("as in the handler")

    ran = await values_of(turn, database, in_thread=True).once("ran", lambda: [threading.get_ident(), bound.get()])

    assert ran[0] != threading.get_ident()
    assert ran[1] == "as in the handler"


async def test_in_a_handler_of_a_thread_a_coroutine_runs_on_the_loop(turn: ClaimedTurn, database: Database) -> None:
    assert await values_of(turn, database, in_thread=True).once("charge", Effect("charged")) == "charged"


async def test_stop_iteration_in_a_thread_ends_the_call(turn: ClaimedTurn, database: Database) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await values_of(turn, database, in_thread=True).once("next", lambda: next(iter([])))


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_function_that_asks_for_its_own_key_is_refused_at_once(
    turn: ClaimedTurn, database: Database, in_thread: bool
) -> None:
    values = values_of(turn, database, in_thread=in_thread)

    async def ask_again() -> Any:
        return await asyncio.gather(values.once("charge", lambda: "inner"))

    with pytest.raises(RuntimeError, match="'charge' would wait for itself"):
        await values.once("charge", ask_again)


async def test_a_function_in_a_thread_that_asks_for_its_own_key_is_refused_at_once(
    turn: ClaimedTurn, database: Database
) -> None:
    values, loop = values_of(turn, database, in_thread=True), asyncio.get_running_loop()

    def ask_again() -> Any:
        return asyncio.run_coroutine_threadsafe(values.once("charge", lambda: "inner"), loop).result()

    with pytest.raises(RuntimeError, match="'charge' would wait for itself"):
        await values.once("charge", ask_again)


async def test_a_function_may_ask_for_another_key(turn: ClaimedTurn, database: Database) -> None:
    values = values_of(turn, database)

    assert await values.once("outer", lambda: values.once("inner", lambda: "inner")) == "inner"


async def test_none_is_recorded_like_any_value(turn: ClaimedTurn, database: Database) -> None:
    effect = Effect(None, "second")
    await values_of(turn, database).once("nothing", effect)

    assert await values_of(turn, database).once("nothing", effect) is None


async def test_the_first_attempt_gets_the_stored_form_of_the_value(turn: ClaimedTurn, database: Database) -> None:
    assert await values_of(turn, database).once("pair", lambda: (1, {2: "two\x00"})) == [1, {"2": "two"}]


async def test_a_changed_value_does_not_change_the_record(turn: ClaimedTurn, database: Database) -> None:
    values = values_of(turn, database)
    (await values.once("list", lambda: [1])).append(2)

    assert await values.once("list", lambda: [1]) == [1]


async def test_a_superseded_attempt_records_nothing_and_ends(
    turn: ClaimedTurn, database: Database, settings: Settings
) -> None:
    late = values_of(turn, database)
    await expire_leases(database)
    successor = await claimed(database, settings)

    with pytest.raises(ClaimLost):
        await late.once("charge", Effect("late"))

    assert await values_of(successor, database).once("charge", Effect("mine")) == "mine"


async def test_a_value_that_is_not_json_or_too_long_is_refused(turn: ClaimedTurn, database: Database) -> None:
    for value in ({1, 2}, "x" * (MAX_VALUE_CHARACTERS + 1)):
        with pytest.raises(UnfitReplyError, match="the value of 'bad'"):
            await values_of(turn, database).once("bad", partial(list, [value]))


async def test_the_values_of_a_turn_are_limited_in_all(turn: ClaimedTurn, database: Database) -> None:
    values, large = values_of(turn, database), "x" * (MAX_VALUE_CHARACTERS - 2)
    for number in range(MAX_ALL_CHARACTERS // MAX_VALUE_CHARACTERS):
        await values.once(f"large {number}", lambda: large)

    with pytest.raises(ValueError, match="in all"):
        await values.once("one more", lambda: large)


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "x" * 201, None])
def test_a_key_must_be_short_and_printable(key: Any) -> None:
    with pytest.raises(ValueError, match="a key must be"):
        check_key(key)
