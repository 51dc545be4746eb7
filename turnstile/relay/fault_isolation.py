"""Isolates the steps of a round: no row and no statement ends a relay, and a failed step does not stop the others.

After an outage there is a warning, and the next round tries again. Any other error is an ERROR line that pages
(`relay.step_failed`). If a statement about many rows is refused, it is repeated for halves of them, down to the row that causes
the error. That row is left out for a while; the others are served.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, DatabaseUnfitError, QueueUnavailableError, UnknownQueueError
from turnstile.telemetry.metrics import RELAY_STEPS_FAILED
from turnstile.telemetry.own_log import log

LEFT_OUT_SECONDS = 60.0
LONGEST_LEFT_OUT_SECONDS = 3600.0
MOST_LEFT_OUT = 1000
MOST_FAILURES = 200
"""Failures of one statement in one round, at most: enough for a hundred bad rows, and an end if the statement is wrong."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    seconds: float


class LeftOut:
    """Rows for which a statement was refused. Each is tried again after a pause, which doubles. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._pauses: dict[UUID, _Pause] = {}

    def add(self, row: UUID, now: float) -> None:
        """Records one more refusal of the row."""
        before = self._pauses.pop(row, None)
        seconds = LEFT_OUT_SECONDS if before is None else min(LONGEST_LEFT_OUT_SECONDS, 2 * before.seconds)
        self._pauses[row] = _Pause(now + seconds, seconds)
        if len(self._pauses) > MOST_LEFT_OUT:
            del self._pauses[next(iter(self._pauses))]

    def at(self, now: float) -> list[UUID]:
        """The rows that are left out at `now`."""
        return [row for row, pause in self._pauses.items() if pause.until > now]


async def alone(
    step: str, work: Awaitable[Result], turn_id: UUID | None = None, trace_id: str | None = None
) -> Result | None:
    """The step's result; None if it fails. Raises QueueUnavailableError and UnknownQueueError, which the sender handles."""
    try:
        return await work
    except (QueueUnavailableError, UnknownQueueError):
        raise
    except DatabaseUnfitError:
        # The pool has said that once; a round comes each second.
        return None
    except DatabaseUnavailableError as error:
        log.warning("relay.round_failed", step=step, error=str(error))
    except Exception as error:
        _report_failed(step, error, turn_id, trace_id)
    return None


async def fetch_around(
    step: str,
    left_out: LeftOut,
    database: Database,
    statement: LiteralString,
    find: LiteralString,
    parameters: dict[str, Any],
) -> list[DictRow]:
    """The statement's rows. If Postgres refuses it, it runs again for the ids of `find`, without the rows that cause the error.

    `find` also returns each turn's `trace_id`. Both get `left_out`, and `only`: the ids of the rows that they may take, or None.
    Raises DatabaseUnavailableError.
    """
    parameters = {**parameters, "left_out": left_out.at(time.monotonic()), "only": None}
    try:
        return await database.fetch(statement, parameters)
    except psycopg.Error:
        found = {row["id"]: row["trace_id"] for row in await database.fetch(find, parameters)}

        async def fetch(some: Sequence[UUID]) -> list[DictRow]:
            return await database.fetch(statement, {**parameters, "only": list(some)})

        return await step_around(step, left_out, found, fetch)


async def step_around(
    step: str,
    left_out: LeftOut,
    rows: Mapping[UUID, str],
    write: Callable[[Sequence[UUID]], Awaitable[Sequence[Result]]],
) -> list[Result]:
    """What `write` returns for all of `rows` (trace ids by ids), except those for which it is refused.

    Raises DatabaseUnavailableError.
    """
    waiting = [list(rows)] if rows else []
    written: list[Result] = []
    failures = 0
    while waiting and failures < MOST_FAILURES:
        some = waiting.pop()
        try:
            written += await write(some)
        except psycopg.Error as error:
            failures += 1
            if len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
            else:
                left_out.add(some[0], time.monotonic())
                _report_failed(step, error, some[0], rows[some[0]])
    return written


def _report_failed(step: str, error: Exception, turn_id: UUID | None, trace_id: str | None) -> None:
    # This line pages. Of a Postgres error only the code and the violated constraint: the rest may have row values.
    about: dict[str, object] = {} if turn_id is None else {"turn_id": str(turn_id), "trace_id": trace_id}
    if isinstance(error, psycopg.Error):
        about |= {"code": error.sqlstate, "violated": error.diag.constraint_name}
    else:
        about["exc_info"] = error
    log.error("relay.step_failed", step=step, error_class=type(error).__name__, **about)
    RELAY_STEPS_FAILED.add(1)
