"""JSON as it is written into the tables, and how deep it may be."""

from collections.abc import Callable
from typing import Any

import pytest

from turnstile.turn.stored_json import MAX_DEPTH, encode, is_too_deep


def test_a_value_is_written_with_its_characters_and_the_order_of_its_keys() -> None:
    assert encode({"b": "\u00fc", "a": [1e308, -0.0, None]}) == '{"b":"\u00fc","a":[1e+308,-0.0,null]}'


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
