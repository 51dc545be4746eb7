"""Backoff: range, cap, growth."""

from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.backends.backoff import ceiling, full_jitter

attempts = st.integers(1, 10**9)
bases = st.floats(0.001, 60)
caps = st.floats(0.001, 3600)


@settings(deadline=None)
@given(attempts, bases, caps)
def test_no_ceiling_is_above_the_cap(attempt: int, base: float, cap: float) -> None:
    assert ceiling(attempt, base, cap) <= cap


@settings(deadline=None)
@given(st.integers(1, 100), bases, caps)
def test_the_ceiling_doubles_until_the_cap(attempt: int, base: float, cap: float) -> None:
    assert ceiling(attempt + 1, base, cap) == min(cap, 2 * ceiling(attempt, base, cap))


@settings(deadline=None)
@given(attempts, bases, caps)
def test_the_whole_range_below_the_ceiling_is_used(attempt: int, base: float, cap: float) -> None:
    assert full_jitter(attempt, 0.0, base, cap) == 0
    assert full_jitter(attempt, 1.0, base, cap) == ceiling(attempt, base, cap)
