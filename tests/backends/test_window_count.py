"""A process that counts by itself: its windows, and the bound of its memory."""

import pytest

from turnstile.backends import window_count
from turnstile.backends.window_count import Count, LocalCounts, Window

WINDOW = Window("submits", limit=2, seconds=60, sliding=True)


def test_so_many_requests_of_a_caller_are_allowed_in_a_window() -> None:
    counts = LocalCounts()

    spent = [counts.spend(WINDOW, ("acme",), now) for now in (120.0, 130.0, 140.5)]

    assert spent == [Count(True, 1, 60), Count(True, 0, 50), Count(False, 0, 40)]


def test_the_next_window_allows_as_many_again() -> None:
    counts = LocalCounts()
    for _ in range(3):
        counts.spend(WINDOW, ("acme",), 179.9)

    assert counts.spend(WINDOW, ("acme",), 180.0) == Count(True, 1, 60)


def test_callers_and_windows_are_counted_apart() -> None:
    counts = LocalCounts()
    for _ in range(3):
        counts.spend(WINDOW, ("acme", "s-1"), 0.0)

    assert counts.spend(WINDOW, ("acme", "s-2"), 0.0).allowed
    assert counts.spend(Window("reads", 2, 60, sliding=True), ("acme", "s-1"), 0.0).allowed


def test_callers_beyond_the_bound_pass_and_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_count, "MOST_COUNTED", 1)
    counts = LocalCounts()
    for _ in range(3):
        counts.spend(WINDOW, ("first",), 0.0)

    assert [counts.spend(WINDOW, ("second",), 0.0) for _ in range(3)] == [Count(True, 2, 60)] * 3
    assert not counts.spend(WINDOW, ("first",), 0.0).allowed
