"""A step of a round fails by itself: no row and no statement ends a relay, and none keeps the other steps from theirs.

An outage is what it always is: a warning, and the next round. Anything else is an ERROR line that pages (`relay.step_failed`).
Where a statement about many rows is refused, it is asked for halves of them, down to the row that is to blame. That one is left
out for a while; the others are served.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import psycopg
import structlog

from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError

LEFT_OUT_SECONDS = 60.0
LONGEST_LEFT_OUT_SECONDS = 3600.0
MOST_LEFT_OUT = 1000
MOST_FAILURES = 200
"""Of one statement in one round: enough for a hundred bad rows, and an end where the statement itself is to blame."""

Result = TypeVar("Result")

log = structlog.get_logger("turnstile.relay")


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    seconds: float


class LeftOut:
    """Rows that a statement was refused for. Each is tried again after a pause, which doubles. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._pauses: dict[UUID, _Pause] = {}

    def add(self, row: UUID, now: float) -> None:
        """Once more it was refused."""
        before = self._pauses.pop(row, None)
        seconds = LEFT_OUT_SECONDS if before is None else min(LONGEST_LEFT_OUT_SECONDS, 2 * before.seconds)
        self._pauses[row] = _Pause(now + seconds, seconds)
        if len(self._pauses) > MOST_LEFT_OUT:
            del self._pauses[next(iter(self._pauses))]

    def at(self, now: float) -> list[UUID]:
        """Those that are left out."""
        return [row for row, pause in self._pauses.items() if pause.until > now]


def tell_failed(step: str, error: Exception, turn_id: UUID | None = None) -> None:
    """The line that pages. Of an error of Postgres its code and the name of what was violated: the rest may have row values."""
    about: dict[str, object] = {} if turn_id is None else {"turn_id": str(turn_id)}
    if isinstance(error, psycopg.Error):
        about |= {"code": error.sqlstate, "violated": error.diag.constraint_name}
    else:
        about["exc_info"] = error
    log.error("relay.step_failed", step=step, error_class=type(error).__name__, **about)


async def alone(step: str, work: Awaitable[Result]) -> Result | None:
    """What the step gives; None where it fails. Raises what says that a queue can't be sent to: that is the sender's to judge."""
    try:
        return await work
    except (QueueUnavailableError, UnknownQueueError):
        raise
    except DatabaseUnavailableError as error:
        log.warning("relay.round_failed", step=step, error=str(error))
    except Exception as error:
        tell_failed(step, error)
    return None


async def step_around(
    step: str,
    left_out: LeftOut,
    rows: Sequence[UUID],
    write: Callable[[Sequence[UUID]], Awaitable[Sequence[Result]]],
) -> list[Result]:
    """What `write` gives for all of `rows` but those for which it is refused. Raises DatabaseUnavailableError."""
    waiting = [rows] if rows else []
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
                tell_failed(step, error, some[0])
    return written
