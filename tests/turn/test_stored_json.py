"""JSON in the tables: its encoding and its depth limit."""

from collections.abc import Callable
from typing import Any

import pytest

from turnstile.turn.stored_json import MAX_DEPTH, encode, is_too_deep


def test_characters_are_not_escaped_and_keys_keep_their_order() -> None:
    assert encode({"b": "\u00fc", "a": [1e308, -0.0, None]}) == '{"b":"\u00fc","a":[1e+308,-0.0,null]}'


@pytest.mark.parametrize(
    "around", [lambda inner: [inner], lambda inner: (0, inner), lambda inner: {"a": 1, "b": inner}]
)
@pytest.mark.parametrize("bottom", [None, "[[[", {}])
def test_all_kinds_of_levels_are_counted(around: Callable[[Any], Any], bottom: Any) -> None:
    value = bottom
    for _ in range(MAX_DEPTH - isinstance(bottom, list | dict)):
        value = around(value)

    assert not is_too_deep(value)
    assert is_too_deep(around(value))


def test_a_wide_value_is_not_deep() -> None:
    assert not is_too_deep([[[n], {"n": n}] for n in range(1000)])
