"""A reply is cleaned for storage, or refused with a reason."""

import json
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.factories import nest
from turnstile.turn.stored_json import MAX_DEPTH
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, UnfitReplyError, clean

# `st.characters()` has all of Unicode: control characters (Cc) and lone surrogates (Cs) too.
any_text = st.text(st.characters())
unfit_text = st.text(st.sampled_from("\x00\ud800\udfff\u0001\\u0a"))
sound_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


def json_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    return st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=10)


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for one in pair for found in texts_in(one)]
    return [found for one in value for found in texts_in(one)] if isinstance(value, list) else []


@settings(deadline=None, max_examples=40)
@given(json_of(any_text | unfit_text))
def test_a_cleaned_reply_can_be_stored(reply: Any) -> None:
    text = clean(reply).text

    assert b"\x00" not in text.encode()
    assert not any("\x00" in found for found in texts_in(json.loads(text)))


@settings(deadline=None, max_examples=40)
@given(json_of(sound_text))
def test_a_storable_reply_is_not_changed(reply: Any) -> None:
    cleaned = clean(reply)

    assert (cleaned.value, cleaned.removed) == (reply, 0)


@settings(deadline=None, max_examples=40)
@given(any_text | unfit_text)
def test_only_characters_that_can_not_be_stored_are_removed_and_counted(reply: str) -> None:
    kept = [one for one in reply if one != "\x00" and not 0xD800 <= ord(one) <= 0xDFFF]

    cleaned = clean(reply)

    assert (cleaned.value, cleaned.removed) == ("".join(kept), len(reply) - len(kept))


def test_a_text_that_looks_like_an_escape_is_kept() -> None:
    assert clean("\\u0000").value == "\\u0000"


def containing_itself() -> list[Any]:
    reply: list[Any] = []
    reply.append(reply)
    return reply


@pytest.mark.parametrize(
    "reply",
    [
        {1, 2},
        float("nan"),
        {("a", "b"): 1},
        10**5000,
        nest("too deep for Python", 100_000),
        containing_itself(),
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_a_reply_that_is_not_json_is_unfit(reply: Any) -> None:
    with pytest.raises(UnfitReplyError, match="not JSON"):
        clean(reply)


@pytest.mark.parametrize(("bottom", "cleaned"), [("fine", "fine"), ("unfit \x00", "unfit ")])
def test_a_reply_may_be_as_deep_as_the_limit(bottom: Any, cleaned: Any) -> None:
    assert clean(nest(bottom, MAX_DEPTH)).value == nest(cleaned, MAX_DEPTH)


@pytest.mark.parametrize("bottom", ["unfit \x00", {}])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 700])
def test_a_deeper_reply_is_unfit(bottom: Any, depth: int) -> None:
    levels = depth - 1 if bottom == {} else depth

    with pytest.raises(UnfitReplyError, match=f"the reply is nested more than {MAX_DEPTH} levels deep"):
        clean(nest(bottom, levels))


class HostileText(str):
    """As a proxy object of a library may be."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = str.__hash__


class Compared(float):
    """Like numpy's numbers: a comparison with one returns no bool."""

    __hash__ = float.__hash__

    def __eq__(self, _: object) -> Any:
        return object()


def test_no_object_of_the_handler_is_left_in_a_cleaned_reply() -> None:
    inner = [HostileText("a"), Compared(1.5)]
    cleaned = clean(OrderedDict(said=HostileText("b"), inner=inner)).value

    assert type(cleaned) is dict
    assert [type(one) for one in [*cleaned.values(), *cleaned["inner"]]] == [str, list, str, float]
    assert cleaned["inner"] is not inner
    assert type(clean(HostileText("c")).value) is str


def test_a_reply_longer_than_the_limit_is_unfit() -> None:
    longest = "x" * (MAX_REPLY_CHARACTERS - 2)
    assert clean(longest).value == longest

    with pytest.raises(UnfitReplyError, match="1000001 characters"):
        clean(longest + "x")


def test_the_error_names_the_value() -> None:
    with pytest.raises(UnfitReplyError, match="metadata has 6 characters, more than 5"):
        clean([1, 2], what="metadata", most=5)
