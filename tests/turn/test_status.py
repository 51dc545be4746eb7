"""The transition table: the properties that the rest of the product relies on."""

import pytest

from turnstile.turn.status import TRANSITIONS, TurnStatus

BEFORE = {status: {before for before, follows in TRANSITIONS.items() if status in follows} for status in TurnStatus}


def test_a_turn_begins_pending_or_cancelled() -> None:
    assert set(TRANSITIONS[None]) == {TurnStatus.PENDING, TurnStatus.CANCELED}


def test_nothing_follows_success_or_cancel() -> None:
    assert TRANSITIONS[TurnStatus.SUCCEEDED] == TRANSITIONS[TurnStatus.CANCELED] == {}


def test_only_a_running_turn_succeeds_or_fails() -> None:
    assert BEFORE[TurnStatus.SUCCEEDED] == BEFORE[TurnStatus.FAILED] == {TurnStatus.RUNNING}


def test_a_failed_turn_can_only_become_pending() -> None:
    assert set(TRANSITIONS[TurnStatus.FAILED]) == {TurnStatus.PENDING}


def test_only_running_may_follow_itself() -> None:
    assert [status for status in TurnStatus if status in TRANSITIONS[status]] == [TurnStatus.RUNNING]


@pytest.mark.parametrize("status", TurnStatus)
def test_a_status_is_either_open_or_terminal(status: TurnStatus) -> None:
    assert status.is_open is (status in {TurnStatus.PENDING, TurnStatus.RUNNING})
    assert status.is_terminal is not status.is_open
