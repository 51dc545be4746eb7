"""The outcome of a handler's exception."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.errors import DatabaseUnavailableError
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.worker.attempt.outcome import (
    MAX_ERROR_CHARACTERS,
    ClaimLost,
    Failed,
    Snoozed,
    Stopped,
    StopReason,
    classify,
)


class ProviderUnavailableError(Exception):
    """A handler's own exception."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Retry("busy"), Failed("Retry", "busy", may_heal=True)),
        (Retry("busy", after=5), Failed("Retry", "busy", may_heal=True, after=5)),
        (Snooze(after=30), Snoozed(30)),
        (Snooze(after=-1), Snoozed(0)),
        (Reject("no"), Failed("Reject", "no", may_heal=False)),
        (Reject("no", dead_letter=False), Failed("Reject", "no", may_heal=False, dead_letter=False)),
        (ConnectionResetError("gone"), Failed("ConnectionResetError", "gone", may_heal=True)),
        (TimeoutError("slow"), Failed("TimeoutError", "slow", may_heal=True)),
        (DatabaseUnavailableError("away"), Failed("DatabaseUnavailableError", "away", may_heal=True)),
        (ValueError("a bug"), Failed("ValueError", "a bug", may_heal=False)),
    ],
)
def test_an_exception_has_its_outcome(error: Exception, outcome: object) -> None:
    assert classify(error) == outcome


@pytest.mark.parametrize("after", ["30", True, 2**40])
def test_a_wait_that_a_subclass_has_set_is_converted_to_seconds(after: Any) -> None:
    busy, away = Retry("busy"), Snooze(after=0)
    # As a subclass does with what a header says.
    busy.after = away.after = after

    retried, snoozed = classify(busy), classify(away)

    assert isinstance(retried, Failed)
    assert isinstance(snoozed, Snoozed)
    assert [(type(one.after), one.after) for one in (retried, snoozed)] == [(float, float(after))] * 2


def test_an_error_that_the_handler_declares_retryable_is_retried() -> None:
    outcome = classify(ProviderUnavailableError("x"), (ProviderUnavailableError,))

    assert isinstance(outcome, Failed)
    assert outcome.may_heal


def test_a_reject_is_final_even_if_every_error_is_declared_retryable() -> None:
    outcome = classify(Reject("no"), (Exception,))

    assert isinstance(outcome, Failed)
    assert not outcome.may_heal


@settings(deadline=None)
@given(st.text(st.characters()))
def test_the_text_of_an_error_can_always_be_stored(text: str) -> None:
    outcome = classify(ValueError(text))

    assert isinstance(outcome, Failed)
    assert b"\x00" not in outcome.error.encode()


def test_the_text_of_an_error_is_cut() -> None:
    outcome = classify(ValueError("x" * 100_000))

    assert isinstance(outcome, Failed)
    assert len(outcome.error) == MAX_ERROR_CHARACTERS


def test_an_exception_without_a_text_fails_the_turn() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    outcome = classify(UnprintableError())

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "UnprintableError"


@pytest.mark.parametrize("after", ["soon", object(), math.nan])
def test_a_wait_that_is_no_number_is_refused_at_its_raise(after: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry(after=after)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        Snooze(after=after)  # type: ignore[arg-type]


def test_a_lost_claim_is_no_failure() -> None:
    assert classify(ClaimLost()) == Stopped(StopReason.SUPERSEDED)


def test_a_lost_claim_is_found_in_a_group_of_exceptions() -> None:
    group = BaseExceptionGroup("of a TaskGroup", [ValueError("x"), BaseExceptionGroup("inner", [ClaimLost()])])

    assert classify(group) == Stopped(StopReason.SUPERSEDED)


def test_a_group_of_ordinary_exceptions_is_a_failure() -> None:
    assert classify(ExceptionGroup("of a TaskGroup", [ValueError("x")])).error_class == "ExceptionGroup"  # type: ignore[union-attr]
