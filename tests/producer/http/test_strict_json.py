"""The JSON that is let in, and all that is not."""

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.producer.http.strict_json import MAX_DEPTH, NotJsonError, RefusedJsonError, parse

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**100), 10**100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values, st.booleans())
def test_what_is_written_is_read_back(value: Any, escaped: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=escaped).encode()) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0d8x1eE+-. NaN').map(lambda written: written.encode()))
def test_any_bytes_are_read_or_refused_and_what_is_read_can_be_stored(data: bytes) -> None:
    try:
        value = parse(data)
    except (NotJsonError, RefusedJsonError):
        return
    # What Postgres is sent: no NaN, no lone surrogate, no U+0000.
    stored = json.dumps(value, allow_nan=False, ensure_ascii=False)
    stored.encode()
    assert "\\u0000" not in stored.replace("\\\\", "")


@given(values)
def test_u0000_is_found_wherever_it_is(value: Any) -> None:
    for spoilt in ([value, "a\0"], {"k": [value, {"\0": 1}]}, {"k": {"v": "\0", "w": value}}):
        with pytest.raises(RefusedJsonError, match=r"U\+0000|levels"):
            parse(json.dumps(spoilt).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[1,]",
        b"{'a': 1}",
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"01",
        b'"\x01"',
        b'"\\x"',
        b"\xff",
        b"1 2",
        b'"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf1",
        b"\x00",
        b"+1",
        b".5",
        b"0x1",
        b"//\n1",
        b"True",
    ],
)
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(NotJsonError):
        parse(data)


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        (b'{"a": {"b": ["x", "\\u0000"]}}', "/a/b/1"),
        (b'{"a/b~": "\\ud800"}', "/a~1b~0"),
        (b'{"a": [0, [{"b": 1}, {"c/": [{"\\udc00": 1}]}]]}', "/a/1/1/c~1/0"),
        (b'{"a": {"\\udc00": 1}}', "/a"),
        (b'"\\udc00\\ud800"', ""),
        (b'{"a": 1, "b": 2, "a": 1}', None),
        (b'{"a": 1, "\\u0061": 1}', None),
        (b"[1e400]", None),
        (b"[-1e400]", None),
        (b"1" * 5000, None),
        (b"1e" + b"9" * 120, None),
    ],
)
def test_what_is_json_but_can_not_be_stored_the_same(data: bytes, pointer: str | None) -> None:
    with pytest.raises(RefusedJsonError) as caught:
        parse(data)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("number", ["1e308", "-1e-300", "0e999", "0." + "1" * 5000, "1" * 4000])
def test_a_number_is_as_long_as_python_reads_it(number: str) -> None:
    assert parse(number.encode()) == json.loads(number)


def test_depth_counts_brackets_and_not_those_in_strings() -> None:
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(RefusedJsonError, match="32 levels"):
        parse(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert parse(json.dumps("[{" * 100).encode()) == "[{" * 100
    assert parse(json.dumps('"[' * 100).encode()) == '"[' * 100
    assert len(parse(b"[" + b",".join([b"[]"] * 1000) + b"]")) == 1000


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 900_000,
        b'{"a":' * 180_000,
        b'"' + b'\\"' * 450_000,
        b'"' * 900_001,
        b"9" * 900_000,
        b"-" * 900_000,
        b"[" + b"1e5," * 225_000,
    ],
    ids=["arrays", "objects", "an open string of quotes", "quotes", "digits", "signs", "numbers"],
)
def test_the_largest_body_that_can_be_configured_costs_little_whatever_it_is(data: bytes) -> None:
    started = time.monotonic()
    with pytest.raises((NotJsonError, RefusedJsonError)):
        parse(data)
    # Quadratic behaviour would take minutes.
    assert time.monotonic() - started < 30


def test_where_nothing_is_at_fault_no_pointer_is_spelt_out() -> None:
    keys = [str(level % 10) * 28_000 for level in range(MAX_DEPTH)]
    data = "".join(f'{{"{key}":' for key in keys).encode() + b"0" + b"}" * MAX_DEPTH

    tracemalloc.start()
    try:
        parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Each level's pointer has all keys above it in it: together sixteen times the body.
    assert peak < 5 * len(data)
