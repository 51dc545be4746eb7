"""The outcome of a handler's exception."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.errors import DatabaseUnavailableError
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.turn.settlement import JoinPolicy
from turnstile.worker.attempt.outcome import (
    MAX_ERROR_CHARACTERS,
    ClaimLost,
    Failed,
    JoinPending,
    Snoozed,
    Stopped,
    StopReason,
    cause_of,
    classify,
)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class RateLimited(Retry):
    """A subclass, as an author makes one for a provider."""


class OutOfStock(Reject):
    """Another one."""


STRANGER = type("Reject", (Exception,), {"__module__": "celery.exceptions"})("password: hunter2")

LOST = BaseExceptionGroup("of a TaskGroup", [ValueError("x"), BaseExceptionGroup("inner", [ClaimLost()])])
FAILED = ExceptionGroup("of a TaskGroup", [ValueError("x")])


def group(*errors: BaseException) -> BaseExceptionGroup[BaseException]:
    """As a TaskGroup within a TaskGroup raises it."""
    return BaseExceptionGroup("outer", [BaseExceptionGroup("of a TaskGroup", errors)])


@pytest.mark.parametrize(
    ("error", "retry_on", "outcome"),
    [
        (Retry("busy"), (), Failed("Retry", "busy", may_heal=True)),
        (Retry("busy", after=5), (), Failed("Retry", "busy", may_heal=True, after=5)),
        (Snooze(after=30), (), Snoozed(30)),
        (Snooze(after=-1), (), Snoozed(0)),
        (Reject("no"), (), Failed("Reject", "no", may_heal=False)),
        (Reject("no"), (Exception,), Failed("Reject", "no", may_heal=False)),
        (Reject("no", dead_letter=False), (), Failed("Reject", "no", may_heal=False, dead_letter=False)),
        (RateLimited("busy"), (), Failed("Retry", "busy", may_heal=True)),
        (group(OutOfStock("no")), (), Failed("Reject", "no", may_heal=False)),
        (STRANGER, (), Failed("celery.exceptions.Reject", "password: hunter2", may_heal=False)),
        (ConnectionResetError("gone"), (), Failed("ConnectionResetError", "gone", may_heal=True)),
        (TimeoutError("slow"), (), Failed("TimeoutError", "slow", may_heal=True)),
        (DatabaseUnavailableError("away"), (), Failed("DatabaseUnavailableError", "away", may_heal=True)),
        (ValueError("a bug"), (), Failed("ValueError", "a bug", may_heal=False)),
        (ValueError("declared"), (ValueError,), Failed("ValueError", "declared", may_heal=True)),
        (ValueError("x" * 100_000), (), Failed("ValueError", "x" * MAX_ERROR_CHARACTERS, may_heal=False)),
        (UnprintableError(), (), Failed("UnprintableError", "(an error without a text)", may_heal=False)),
        (ClaimLost(), (), Stopped(StopReason.SUPERSEDED)),
        (LOST, (), Stopped(StopReason.SUPERSEDED)),
        (FAILED, (), Failed("ValueError", "x", may_heal=False)),
        (FAILED, (ExceptionGroup,), Failed("ExceptionGroup", str(FAILED), may_heal=True)),
        (group(Retry("busy", after=5)), (), Failed("Retry", "busy", may_heal=True, after=5)),
        (group(Snooze(after=30)), (), Snoozed(30)),
        (group(Reject("no", dead_letter=False)), (), Failed("Reject", "no", may_heal=False, dead_letter=False)),
        (group(ConnectionError("gone"), TimeoutError()), (), Failed("ConnectionError", "gone", may_heal=True)),
        (group(KeyError("k"), TimeoutError()), (LookupError,), Failed("KeyError", "'k'", may_heal=True)),
        (group(TimeoutError(), ValueError("a bug")), (), Failed("ValueError", "a bug", may_heal=False)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_exception_has_its_outcome(
    error: BaseException, retry_on: tuple[type[BaseException], ...], outcome: object
) -> None:
    assert classify(error, retry_on) == outcome


# The order of docs/handlers.md.
BY_RANK = [
    ClaimLost(),
    JoinPending((), JoinPolicy.ALL),
    Reject("no"),
    Retry("busy"),
    Snooze(after=1),
    ValueError("a bug"),
    TimeoutError(),
]


@pytest.mark.parametrize(("winner", "loser"), list(pairwise(BY_RANK)), ids=lambda error: type(error).__name__)
def test_of_several_exceptions_of_a_group_one_decides_wherever_it_is(
    winner: BaseException, loser: BaseException
) -> None:
    for errors in ([winner, loser], [loser, winner], [loser, group(winner)]):
        assert cause_of(group(*errors)) is winner


@pytest.mark.parametrize("after", ["30", True, 2**40])
def test_a_wait_that_a_subclass_has_set_is_converted_to_seconds(after: Any) -> None:
    busy, away = Retry("busy"), Snooze(after=0)
    # As a subclass does with what a header says.
    busy.after = away.after = after

    retried, snoozed = classify(busy), classify(away)

    assert isinstance(retried, Failed)
    assert isinstance(snoozed, Snoozed)
    assert [(type(one.after), one.after) for one in (retried, snoozed)] == [(float, float(after))] * 2


@settings(deadline=None)
@given(st.text(st.characters()))
def test_the_text_of_an_error_can_always_be_stored(text: str) -> None:
    outcome = classify(ValueError(text))

    assert isinstance(outcome, Failed)
    assert b"\x00" not in outcome.error.encode()


@pytest.mark.parametrize("after", ["soon", object(), math.nan])
def test_a_wait_that_is_not_a_number_is_refused_at_its_raise(after: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry(after=after)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        Snooze(after=after)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "retry_on", "unforeseen"),
    [
        (ValueError("a bug"), (), True),
        (ValueError("declared"), (ValueError,), False),
        (TimeoutError("slow"), (), False),
        (group(TimeoutError(), KeyError("a bug")), (), True),
        (Reject("no"), (), False),
        (Retry("busy"), (), False),
    ],
)
def test_an_error_is_unforeseen_if_its_author_has_not_said_what_it_means(
    error: BaseException, retry_on: tuple[type[BaseException], ...], unforeseen: bool
) -> None:
    outcome = classify(error, retry_on)

    assert isinstance(outcome, Failed)
    assert outcome.unforeseen is unforeseen


def test_a_handler_may_have_unforeseen_errors_retried() -> None:
    outcome = classify(ValueError("a bug"), retry_unforeseen=True)

    assert isinstance(outcome, Failed)
    assert (outcome.may_heal, outcome.unforeseen) == (True, True)
