"""UUIDv7 and W3C trace contexts."""

from uuid import RFC_4122

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.turn.identifiers import continue_trace, start_trace, uuid7

milliseconds = st.integers(0, 2**48 - 1)
bits_74 = st.integers(0, 2**74 - 1)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@settings(max_examples=50)
@given(milliseconds, bits_74)
def test_an_id_is_a_uuid_of_version_7_with_its_time_and_all_its_random_bits(now: int, random_bits: int) -> None:
    made = uuid7(now, random_bits)

    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == now
    assert ((made.int >> 64) & 0xFFF) << 62 | made.int & (1 << 62) - 1 == random_bits


def test_bits_beyond_74_are_ignored() -> None:
    assert uuid7(1, 2**200 - 1) == uuid7(1, 2**74 - 1)


@settings(max_examples=50)
@given(st.integers(0, 2**192 - 1))
def test_a_new_trace_is_valid_and_has_no_parent(random_bits: int) -> None:
    trace = start_trace(random_bits)

    assert continue_trace(trace.traceparent, 1).trace_id == trace.trace_id
    assert trace.parent_span_id is None


def test_ids_of_all_zeroes_are_never_made() -> None:
    assert start_trace(0).traceparent == f"00-{'0' * 31}1-{'0' * 15}1-01"


def test_a_continued_trace_is_a_child_of_the_callers_span() -> None:
    trace = continue_trace(TRACEPARENT, 0xABC)

    assert (trace.trace_id, trace.span_id, trace.parent_span_id) == (TRACE, "0000000000000abc", SPAN)


@pytest.mark.parametrize(
    "traceparent",
    [
        f"  {TRACEPARENT} ",
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-a-later-version-may-add",
    ],
)
def test_a_valid_header_continues_its_trace(traceparent: str) -> None:
    assert continue_trace(traceparent, 7).trace_id == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-version-00-has-nothing-here",
    ],
)
def test_an_invalid_header_is_ignored_and_starts_a_new_trace(traceparent: str | None) -> None:
    trace = continue_trace(traceparent, 2**192 - 1)

    assert (trace.trace_id, trace.parent_span_id) == ("f" * 32, None)
