"""`ctx.once`: records the result of a side effect with the turn, so that a retry gets the result instead of repeating the effect.

A worker may die between the effect and its record; `ctx.idempotency_key` covers that case.
"""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from copy import deepcopy
from typing import Any

from turnstile.backends.postgres.database import Database
from turnstile.statements.once_values import read_values, record_value
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.stored_json import encode
from turnstile.worker.attempt.outcome import ClaimLost
from turnstile.worker.attempt.reply import clean
from turnstile.worker.database_retry import RetryWhileDown
from turnstile.worker.in_own_thread import in_own_thread

MAX_KEY_CHARACTERS = 200
MAX_VALUE_CHARACTERS = 100_000
MAX_ALL_CHARACTERS = 1_000_000
"""The bound for all values of a turn: they are read together, and all are part of a compensation's input."""


def check_key(key: str) -> None:
    """Raises ValueError for a key that can't be stored."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_CHARACTERS or not key.isprintable():
        raise ValueError(f"a key must be 1 to {MAX_KEY_CHARACTERS} printable characters, got {key!r:.80}")


_computing: ContextVar[tuple[str, ...]] = ContextVar("computing", default=())
"""The keys whose functions the current context runs within."""


class RecordedValues:
    """The recorded values of one attempt's turn. Read from the database at the first call of `once`."""

    def __init__(
        self, turn: ClaimedTurn, database: Database, retry_while_down: RetryWhileDown, *, in_thread: bool
    ) -> None:
        """`in_thread`: plain functions are called in a thread, because the handler runs in one and may block."""
        self._turn = turn
        self._database = database
        self._retry_while_down = retry_while_down
        self._known: dict[str, Any] | None = None
        self._in_thread = in_thread
        self._reading = asyncio.Lock()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def once(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value under `key`; if there is none, calls `compute` and records its value first.

        Raises ValueError for a bad key or too large values in all, UnfitReplyError for a value that is not JSON or too large,
        ClaimLost, and RuntimeError for a `compute` that asks for its own key.
        """
        check_key(key)
        if key in (computing := _computing.get()):
            raise RuntimeError(
                f"{key!r} would wait for itself: its function calls ctx.once with the same key; use another"
            )
        # Calls of one attempt with the same key wait for each other; if the first fails, the next tries.
        async with self._locks[key]:
            known = await self._read()
            if key not in known:
                before = _computing.set((*computing, key))
                try:
                    known[key] = await self._record(key, compute, known)
                finally:
                    _computing.reset(before)
            # A copy: changes that the handler makes to it must not show in a later call.
            return deepcopy(known[key])

    async def _read(self) -> dict[str, Any]:
        async with self._reading:
            if self._known is None:
                self._known = await self._retry_while_down(lambda: read_values(self._database, self._turn))
            return self._known

    async def _record(self, key: str, compute: Callable[[], Any], known: dict[str, Any]) -> Any:
        result = await in_own_thread(_call, copy_context(), compute) if self._in_thread else compute()
        if inspect.isawaitable(result):
            result = await result
        text = clean(result, what=f"the value of {key!r}", most=MAX_VALUE_CHARACTERS).text
        if len(text) + sum(len(encode(value)) for value in known.values()) > MAX_ALL_CHARACTERS:
            raise ValueError(f"the values of one turn may have {MAX_ALL_CHARACTERS} characters in all")
        turn = self._turn
        recorded = await self._retry_while_down(lambda: record_value(self._database, turn, key, text))
        if recorded is None:
            raise ClaimLost("a value could not be recorded: another claim has the turn")
        return recorded.value


def _call(context: Context, compute: Callable[[], Any]) -> Any:
    try:
        return context.run(compute)
    except StopIteration as error:
        # A future does not accept it: the call would never return.
        raise RuntimeError("the function of ctx.once raised StopIteration") from error
