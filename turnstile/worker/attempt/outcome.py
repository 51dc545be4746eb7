"""How an attempt ended: a closed set of outcomes, and the function that turns an exception into one. Pure.

Calls on the context raise an AttemptEnding through the handler. It is not a subclass of Exception, so that a handler's
`except Exception` does not catch it by mistake. If a handler catches it all the same and returns, its return value is
its reply.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from turnstile.errors import DatabaseUnavailableError, KeyMissingError
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.error_classes import REJECT, RETRY, TIMEOUT, name_class
from turnstile.turn.limits import check_wait
from turnstile.turn.settlement import JoinPolicy

HEALING: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError, DatabaseUnavailableError)
"""Exceptions that count as retryable whatever the handler's `retry_on` says: their cause may go away by itself."""

MAX_ERROR_CHARACTERS = 2000

KEY_WAIT_SECONDS = 10.0
"""How long a turn waits whose contents this worker can't open: another worker may have the key, or gets it in a deployment."""


class AttemptEnding(BaseException):
    """The attempt is over for a reason outside the handler; it has not failed."""


class ClaimLost(AttemptEnding):
    """Another claim has the turn now: the results of this attempt are discarded."""


class JoinPending(AttemptEnding):
    """The children have not ended yet: the handler runs again from its beginning when they have."""

    def __init__(self, children: tuple[UUID, ...], policy: JoinPolicy) -> None:
        super().__init__(f"waits for {policy} of {len(children)} children")
        self.children = children
        self.policy = policy


class StopReason(StrEnum):
    CANCELED = "canceled"
    """A client or an operator cancelled the turn."""
    SHUTDOWN = "shutdown"
    """The process must end; the turn is handed back."""
    SUPERSEDED = "superseded"
    """The lease's renewal was refused: another claim has the turn."""
    NO_SLOT = "no_slot"
    """The handler has not begun, because no slot became free. The turn is handed back."""
    BROKEN_HANDLER = "broken_handler"
    """The handler fails with the same error in each of this worker's first turns. The turn is handed back."""

    @property
    def cancel_reason(self) -> CancelReason:
        """The cancel reason that the handler sees, unless the turn's row has one."""
        # Nobody sees those of NO_SLOT and BROKEN_HANDLER, because no handler is running.
        others = {StopReason.CANCELED: CancelReason.USER, StopReason.SUPERSEDED: CancelReason.SUPERSEDED}
        return others.get(self, CancelReason.SHUTDOWN)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""

    reply: Any
    text: str | None = field(default=None, compare=False)
    """The reply's JSON at the time of its check; None: the settle encodes the reply."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `after`: the wait before a retry that it asked for, in seconds."""

    error_class: str
    error: str
    may_heal: bool
    after: float | None = None
    dead_letter: bool = True
    traceback: str | None = field(default=None, repr=False, compare=False)
    """Where it raised, without the error's text and without local variables."""
    limit: str | None = None
    """The limit whose key of this turn is paused for `after`."""
    unforeseen: bool = field(default=False, compare=False)
    """The handler's author has not said what this error means: it is neither ours nor in `retry_on`."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be called again later, free of charge."""

    after: float
    reason: str | None = None
    limit: str | None = None
    """The limit whose key of this turn is paused for `after`."""


@dataclass(frozen=True, slots=True)
class Joining:
    """The handler waits for children: it runs again when they have ended."""

    children: tuple[UUID, ...]
    policy: JoinPolicy


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt took longer than its timeout of `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The attempt did not end by itself: it was stopped, was not begun, or found that another claim has its turn."""

    reason: StopReason


Outcome = Succeeded | Failed | Snoozed | Joining | TimedOut | Stopped


def fault_in(outcome: Outcome) -> str | None:
    """The class of the error that ended the handler; None if none did."""
    match outcome:
        case Failed(error_class=error_class):
            return error_class
        case TimedOut():
            return TIMEOUT
        case Succeeded() | Snoozed() | Joining() | Stopped():
            return None
        case _:
            assert_never(outcome)


def classify(
    error: BaseException, retry_on: tuple[type[BaseException], ...] = (), *, retry_unforeseen: bool = False
) -> Outcome:
    """The outcome for a handler's exception. Errors whose cause may go away are retried; of the others, which nobody has
    foreseen, `retry_unforeseen` decides.

    Raises any error that the inspection of the exception causes, such as ValueError for a Retry whose wait is not a
    number.
    """
    match cause := cause_of(error, retry_on):
        case ClaimLost():
            return Stopped(StopReason.SUPERSEDED)
        case JoinPending(children=children, policy=policy):
            return Joining(children, policy)
        case Snooze():
            return Snoozed(max(0.0, check_wait(cause.after)), _text(cause) or None, _limit(cause))
        case KeyMissingError():
            return Snoozed(KEY_WAIT_SECONDS, _text(cause))
        case Retry():
            # Checked again, because a subclass may have set it from a provider's header. Later, a bad value would raise an error
            # that nothing catches, and the turn would be taken over again and again: a crash loop.
            after = None if cause.after is None else check_wait(cause.after)
            return Failed(RETRY, _text(cause), may_heal=True, after=after, limit=_limit(cause))
        case Reject():
            return Failed(REJECT, _text(cause), may_heal=False, dead_letter=bool(cause.dead_letter))
        case _:
            foreseen = isinstance(cause, (*HEALING, *retry_on))
            may_heal = foreseen or retry_unforeseen
            return Failed(name_class(cause), _text(cause), may_heal=may_heal, unforeseen=not foreseen)


def cause_of(error: BaseException, retry_on: tuple[type[BaseException], ...] = ()) -> BaseException:
    """The exception that decides: of a group, as a TaskGroup raises it, the first of the highest rank, at any depth.

    The ranks: what ended the attempt from outside, Reject, Retry, Snooze, a missing key, an error that no retry heals,
    any other error. A group that `retry_on` names is itself the error.
    """
    leaves = list(_leaves(error))
    for ranked in _RANKS:
        if (found := next((leaf for leaf in leaves if isinstance(leaf, ranked)), None)) is not None:
            return found
    healing = (*HEALING, *retry_on)
    if isinstance(error, healing):
        return error
    return next((leaf for leaf in leaves if not isinstance(leaf, healing)), leaves[0])


_RANKS = (ClaimLost, JoinPending, Reject, Retry, Snooze, KeyMissingError)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _limit(cause: Retry | Snooze) -> str | None:
    # A subclass may have an __init__ of its own.
    name = getattr(cause, "limit", None)
    return name if isinstance(name, str) else None


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        # A custom __str__ may raise. It must not keep the turn from being settled.
        return "(an error without a text)"
    return storable(text)[:MAX_ERROR_CHARACTERS]


def storable(text: str) -> str:
    """The text as Postgres can store it: without U+0000 and lone surrogates. Otherwise its turn would never be settled."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
