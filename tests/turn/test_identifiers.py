"""UUIDv7 and W3C trace contexts."""

from uuid import RFC_4122

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.turn.identifiers import continue_trace, start_trace, uuid7

milliseconds = st.integers(0, 2**48 - 1)
bits_74 = st.integers(0, 2**74 - 1)
bits_192 = st.integers(0, 2**192 - 1)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@settings(deadline=None)
@given(milliseconds, bits_74)
def test_an_id_is_a_uuid_of_version_7(now: int, random_bits: int) -> None:
    made = uuid7(now, random_bits)

    assert (made.version, made.variant) == (7, RFC_4122)


@settings(deadline=None)
@given(milliseconds, bits_74)
def test_an_id_holds_its_time_and_all_its_random_bits(now: int, random_bits: int) -> None:
    number = uuid7(now, random_bits).int

    assert number >> 80 == now
    assert ((number >> 64) & 0xFFF) << 62 | number & (1 << 62) - 1 == random_bits


@settings(deadline=None)
@given(milliseconds, bits_74, milliseconds, bits_74)
def test_ids_sort_by_their_time(earlier: int, one: int, later: int, other: int) -> None:
    earlier, later = sorted((earlier, later))

    assert earlier == later or str(uuid7(earlier, one)) < str(uuid7(later, other))


@settings(deadline=None)
@given(st.integers(0, 2**60), st.integers(0, 2**200))
def test_bits_that_are_too_many_do_not_spill_into_the_version(now: int, random_bits: int) -> None:
    assert uuid7(now, random_bits).version == 7


@settings(deadline=None)
@given(bits_192)
def test_a_new_trace_is_a_valid_one_without_a_parent(random_bits: int) -> None:
    trace = start_trace(random_bits)

    assert continue_trace(trace.traceparent, 1).trace_id == trace.trace_id
    assert trace.parent_span_id is None


def test_ids_of_all_zeroes_are_never_made() -> None:
    assert start_trace(0).traceparent == f"00-{'0' * 31}1-{'0' * 15}1-01"


@settings(deadline=None)
@given(st.integers(1, 2**64 - 1))
def test_a_continued_trace_is_a_child_of_the_callers_span(random_bits: int) -> None:
    trace = continue_trace(TRACEPARENT, random_bits)

    assert (trace.trace_id, trace.parent_span_id) == (TRACE, SPAN)
    assert int(trace.span_id, 16) == random_bits


@pytest.mark.parametrize(
    "traceparent",
    [
        f"  {TRACEPARENT} ",
        f"00-{TRACE}-{SPAN}-00",
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-a-later-version-may-add",
    ],
)
def test_a_trace_is_continued_from(traceparent: str) -> None:
    assert continue_trace(traceparent, 7).trace_id == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "garbage",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-version-00-has-nothing-here",
        f"00-{TRACE}-{SPAN}-01.",
        f"cc-{TRACE}-{SPAN}-01.",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
    ],
)
def test_a_header_that_is_not_valid_is_ignored_and_a_new_trace_begins(traceparent: str | None) -> None:
    trace = continue_trace(traceparent, 2**192 - 1)

    assert (trace.trace_id, trace.parent_span_id) == ("f" * 32, None)
