"""A handler returns, raises or emits what a model or a library gave it: its turn ends, and the next one runs."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import structlog.testing
from hypothesis import strategies as st

from tests.support.drawn_examples import draw
from tests.support.factories import make_submission, nest
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.turn.error_classes import UNFIT_REPLY
from turnstile.turn.stored_json import MAX_DEPTH
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS
from turnstile.worker.session_lock import SessionLock

CANARY = "canary-4711"

texts = st.text(st.characters()) | st.text(st.sampled_from("\x00\ud800\udfff\u202e\x1b\\u0\"'{}%"))
replies = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | texts | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(), inner, max_size=4),
    max_leaves=12,
)
errors = st.builds(
    lambda kind, text: kind(text),
    st.sampled_from([Retry, Reject, ValueError, ConnectionError, KeyError, OSError, UnicodeError]),
    texts,
)

WORST = [
    "x" * (MAX_REPLY_CHARACTERS - 2),
    "x" * (MAX_REPLY_CHARACTERS + 1),
    "\x00" * 100_000,
    nest("x", MAX_DEPTH),
    nest("x", MAX_DEPTH + 1),
    nest("x", 100_000),
    [math.nan, math.inf],
    {"\x00": 1, "": 2, "\ud800": 3},
    10**5000,
    1e308,
    object(),
    BaseException,
    (one for one in "a generator"),
]


async def run_each(
    settings: Settings, database: Database, lock: SessionLock, handler: Callable[[Turn, Context], Any], many: int
) -> list[dict[str, Any]]:
    """The rows of `many` turns of one session, whose handler is called with the number of each as its input."""
    wanted = [make_submission(settings.queue, "s", number, max_attempts=1) for number in range(many)]
    await submit(database, wanted, resend_seconds=600.0)
    with (
        structlog.testing.capture_logs() as lines,
        processing(settings, database, lock, "w", Handler(handler)) as processor,
    ):
        # A session run ends after twenty turns.
        for one in wanted:
            await processor.process(message_about(one.turn_id))
    assert CANARY not in str(lines)
    return await database.fetch("SELECT status, error_class, error FROM turns ORDER BY seq", {})


async def test_every_reply_ends_its_turn(settings: Settings, database: Database, lock: SessionLock) -> None:
    returned = [*WORST, *draw(replies, 80)]

    rows = await run_each(settings, database, lock, lambda turn, _: returned[turn.input], len(returned))

    ends = {(row["status"], row["error_class"]) for row in rows}
    assert ends == {("SUCCEEDED", None), ("FAILED", UNFIT_REPLY)}
    assert all(row["error"] for row in rows if row["status"] == "FAILED")


async def test_every_error_ends_its_turn(settings: Settings, database: Database, lock: SessionLock) -> None:
    raised = [ValueError(CANARY * 100_000), *draw(errors, 60)]

    def fail(turn: Turn, _: Context) -> None:
        raise raised[turn.input]

    rows = await run_each(settings, database, lock, fail, len(raised))

    assert {row["status"] for row in rows} == {"FAILED"}
    assert all(row["error_class"] for row in rows)


@pytest.mark.parametrize("after", [1e400, 2**70, "1", True])
async def test_a_wait_beyond_all_measure_ends_the_attempt(
    settings: Settings, database: Database, lock: SessionLock, after: Any
) -> None:
    def wait(*_: Any) -> None:
        raise Snooze(after=after)

    [row] = await run_each(settings, database, lock, wait, 1)

    assert row["status"] in {"PENDING", "FAILED"}


async def test_everything_that_a_handler_emits_leaves_its_reply_alone(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    emitted = [*WORST, *draw(texts | replies, 60)]

    async def emit(turn: Turn, ctx: Context) -> str:
        with suppress(ValueError):
            await ctx.emit(emitted[turn.input])
        return "answered"

    rows = await run_each(settings, database, lock, emit, len(emitted))

    assert {row["status"] for row in rows} == {"SUCCEEDED"}
