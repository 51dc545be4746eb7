"""How an attempt ended: a closed set of values, and the one function that turns an exception into one. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from turnstile.errors import DatabaseUnavailableError
from turnstile.handlers.handler import Reject, Retry, Snooze
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.limits import check_wait
from turnstile.turn.settlement import JoinPolicy
from turnstile.worker.attempt.signals import AttemptEnding, ClaimLost, JoinPending

HEALING: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError, DatabaseUnavailableError)
"""What may heal by itself, whoever wrote the handler."""

MAX_ERROR_CHARACTERS = 2000


class StopReason(StrEnum):
    """Why a handler is told to come to an end."""

    CANCELED = "canceled"
    """Somebody cancelled the turn."""
    SHUTDOWN = "shutdown"
    """The process must go; the turn is handed back."""
    SUPERSEDED = "superseded"
    """The lease was refused: another worker has the turn."""
    NO_SLOT = "no_slot"
    """It has not begun: no handler has made room for it. The turn is handed back."""

    @property
    def told(self) -> CancelReason:
        """What the handler is told, where the row does not say it better."""
        return _TOLD[self]


_TOLD = {
    StopReason.CANCELED: CancelReason.USER,
    StopReason.SHUTDOWN: CancelReason.SHUTDOWN,
    StopReason.SUPERSEDED: CancelReason.SUPERSEDED,
    # Nobody is told: no handler is running.
    StopReason.NO_SLOT: CancelReason.SHUTDOWN,
}


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""

    reply: Any
    text: str | None = field(default=None, compare=False)
    """Its JSON as it was when it was judged; None: to be made when it is settled."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `after`: the wait that it asked for, in seconds."""

    error_class: str
    error: str
    may_heal: bool
    after: float | None = None
    dead_letter: bool = True


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be called again later, free of charge."""

    after: float


@dataclass(frozen=True, slots=True)
class Joining:
    """The handler waits for children: it is to run again when they have ended."""

    children: tuple[UUID, ...]
    policy: JoinPolicy


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt took longer than it may."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """It came to no end of its own: it was told to stop, or was not begun, or found that another claim has its turn."""

    reason: StopReason


Outcome = Succeeded | Failed | Snoozed | Joining | TimedOut | Stopped


def classify(error: BaseException, retry_on: tuple[type[BaseException], ...] = ()) -> Outcome:
    """What a handler's exception means. Retried is only what may heal (G10); all else fails at once (G11).

    Raises whatever an exception raises that can't be judged, as a Retry whose wait is no number.
    """
    match _ending_in(error):
        case ClaimLost():
            return Stopped(StopReason.SUPERSEDED)
        case JoinPending(children=children, policy=policy):
            return Joining(children, policy)
        case _:
            pass
    match error:
        case Snooze():
            return Snoozed(max(0.0, check_wait(error.after)))
        case Retry():
            # Checked again: a subclass may have put there what a provider's header says. Past this function nobody would catch
            # what comes of it, and the turn would be taken over and over again, until it is a crash loop.
            after = None if error.after is None else check_wait(error.after)
            return Failed("Retry", _text(error), may_heal=True, after=after)
        case Reject():
            return Failed("Reject", _text(error), may_heal=False, dead_letter=bool(error.dead_letter))
        case _:
            return Failed(type(error).__name__, _text(error), may_heal=isinstance(error, (*HEALING, *retry_on)))


def _ending_in(error: BaseException) -> BaseException | None:
    """The ending that was raised, be it out of a TaskGroup of the handler's."""
    if isinstance(error, BaseExceptionGroup):
        found = (_ending_in(one) for one in error.exceptions)
        return next((one for one in found if one is not None), None)
    return error if isinstance(error, AttemptEnding) else None


def _text(error: BaseException) -> str:
    # Postgres takes no U+0000 and UTF-8 no lone surrogate: an error that can't be stored would hold its turn for ever.
    try:
        text = str(error)
    except Exception:
        # Somebody's own __str__. It shall not keep the turn from being settled.
        return "(an error without a text)"
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:MAX_ERROR_CHARACTERS]
