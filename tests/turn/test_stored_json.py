"""What JSON takes up in a jsonb column is counted, and never written out for it."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.turn.stored_json import MAX_DEPTH, count_characters, count_number, is_too_deep

digits = st.text("0123456789", min_size=1, max_size=20)


@given(st.booleans(), digits, st.none() | digits, st.none() | st.integers(-400, 400))
def test_a_number_is_counted_as_it_is_written_out(
    negative: bool, whole: str, fraction: str | None, exponent: int | None
) -> None:
    number = f"{whole}{'' if fraction is None else '.' + fraction}{'' if exponent is None else f'E{exponent:+}'}"
    signed = negative and Decimal(number) != 0

    assert count_number("-" * negative + number) == signed + len(format(Decimal(number), "f"))


@pytest.mark.parametrize(
    ("number", "characters"),
    [
        ("0", 1),
        ("-0e-5", len("0.00000")),
        ("-0.0", len("0.0")),
        ("0e400", 1),
        ("1e30", 31),
        ("1E+30", 31),
        ("-1.5e-05", len("-0.000015")),
        ("1e308", 309),
        ("1e-300", 302),
        ("12.50e1", len("125.0")),
        ("1e999999999", 1_000_000_000),
        ("1e-999999999", 1_000_000_001),
        ("1e-" + "9" * 100, 10**100 + 1),
    ],
)
def test_numbers_of_any_size_are_counted(number: str, characters: int) -> None:
    assert count_number(number) == characters


def test_a_text_is_counted_with_its_numbers_written_out() -> None:
    plain = json.dumps({"a": [1, 0.5, "1e308", "e+16 and 3e-05"], "1e+308": None})
    assert count_characters(plain) == len(plain)

    assert count_characters(json.dumps([1e308, {"a": -1e-300}])) == len("[") + 309 + len(', {"a": ') + 303 + len("}]")


@pytest.mark.parametrize(
    "around", [lambda inner: [inner], lambda inner: (0, inner), lambda inner: {"a": 1, "b": inner}]
)
@pytest.mark.parametrize("bottom", [None, "[[[", [], {}])
def test_levels_of_every_kind_are_counted(around: Callable[[Any], Any], bottom: Any) -> None:
    value = bottom
    for _ in range(MAX_DEPTH - isinstance(bottom, list | dict)):
        value = around(value)

    assert not is_too_deep(value)
    assert is_too_deep(around(value))


def test_many_values_side_by_side_are_not_deep() -> None:
    assert not is_too_deep([[[n], {"n": n}] for n in range(1000)])
