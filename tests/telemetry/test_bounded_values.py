"""Label values from outside have a bound."""

import pytest

from turnstile.telemetry.bounded_values import MAX_CHARACTERS, OTHER, BoundedValues


def test_the_first_values_keep_their_names_and_all_later_ones_share_one() -> None:
    values = BoundedValues(2)

    assert [values.bound(value) for value in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]


def test_no_value_is_always_itself() -> None:
    values = BoundedValues(1)

    assert [values.bound(value) for value in ("a", "", "b")] == ["a", "", OTHER]


@pytest.mark.parametrize(("value", "label"), [("x" * 1000, "x" * MAX_CHARACTERS), ("half \ud83d", "half ?")])
def test_a_label_is_short_and_can_be_encoded(value: str, label: str) -> None:
    assert BoundedValues(1).bound(value) == label
