"""UUIDv7 and W3C trace contexts."""

from hashlib import sha256
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.turn.identifiers import (
    TraceContext,
    chosen_prefix,
    continue_trace,
    for_xray,
    may_choose,
    start_trace,
    uuid7,
)

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
@given(milliseconds, bits_74, st.sampled_from(["default", "acme", "globex"]))
def test_no_client_may_choose_an_id_that_the_product_may_make(now: int, random_bits: int, tenant: str) -> None:
    assert not may_choose(tenant, uuid7(now, random_bits))
    assert not may_choose(tenant, uuid7(int(chosen_prefix(tenant), 16), random_bits))


def test_a_client_may_choose_the_ids_that_begin_as_its_tenants_do() -> None:
    for tenant, other in (("acme", "globex"), ("globex", "acme")):
        for version in (1, 4, 5, 8):
            chosen = UUID(f"{chosen_prefix(tenant)}{version}abc8{'0' * 15}")
            assert (may_choose(tenant, chosen), may_choose(other, chosen)) == (True, False)


def test_the_prefix_of_a_tenant_is_what_the_documents_say() -> None:
    assert chosen_prefix("default") == sha256(b"default").hexdigest()[:12]


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

    assert (trace.trace_id, trace.span_id, trace.parent_span_id) == (TRACE, "0000000000000abd", SPAN)


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


# --- the sampling decision, and the spans of attempts


@pytest.mark.parametrize(("flags", "sampled"), [("01", True), ("00", False), ("03", True), ("02", False)])
def test_the_last_bit_of_the_span_id_carries_the_clients_sampling_decision(flags: str, sampled: bool) -> None:
    for random_bits in (0, 1, 2, 2**64 - 1):
        trace = continue_trace(f"00-{TRACE}-{SPAN}-{flags}", random_bits)

        assert trace.sampled is sampled
        assert trace.traceparent.endswith("-01" if sampled else "-00")
        assert int(trace.span_id, 16)
        # As another process reads it from the table, which has the ids alone.
        assert TraceContext(trace.trace_id, trace.span_id).sampled is sampled
        assert continue_trace(trace.traceparent, random_bits).sampled is sampled


def test_a_decision_changes_the_span_id_alone() -> None:
    trace = continue_trace(TRACEPARENT, 0xABC)

    dropped = trace.with_decision(sampled=False)

    assert (dropped.span_id, dropped.sampled) == ("0000000000000abc", False)
    assert dropped.with_decision(sampled=True) == trace


def test_each_attempt_has_a_span_of_its_own_below_the_turns_which_anybody_can_name() -> None:
    for trace in (start_trace(5), start_trace(5).with_decision(sampled=False)):
        attempts = [trace.attempt(fence) for fence in range(1, 100)]

        assert attempts == [trace.attempt(fence) for fence in range(1, 100)]
        assert len({attempt.span_id for attempt in attempts} | {trace.span_id}) == 100
        assert {attempt.sampled for attempt in attempts} == {trace.sampled}
        assert {attempt.parent_span_id for attempt in attempts} == {trace.span_id}


# --- AWS X-Ray

ROOT = f"1-{TRACE[:8]}-{TRACE[8:]}"


@pytest.mark.parametrize(
    ("header", "parent", "sampled"),
    [
        (f"Root={ROOT};Parent={SPAN};Sampled=1", SPAN, True),
        (f"Root={ROOT}; Parent={SPAN}; Sampled=0", SPAN, False),
        # A load balancer.
        (f"Self=1-67891234-12456789abcdef012345678;Root={ROOT}", None, True),
        (f"Root={ROOT.upper()};Parent={SPAN.upper()}", SPAN, True),
        (f"Root={ROOT};Parent={'0' * 16};Sampled=?", None, True),
    ],
)
def test_without_a_traceparent_the_trace_of_x_ray_is_continued(header: str, parent: str | None, sampled: bool) -> None:
    trace = continue_trace(None, 7, header)

    assert (trace.trace_id, trace.parent_span_id, trace.sampled) == (TRACE, parent, sampled)


@pytest.mark.parametrize(
    "header", ["", "Root", f"Root=2{ROOT[1:]}", f"Root=1-{'0' * 8}-{'0' * 24}", f"Parent={SPAN}", ";;="]
)
def test_an_invalid_header_of_x_ray_is_ignored(header: str) -> None:
    assert continue_trace(None, 2**192 - 1, header).trace_id == "f" * 32


def test_a_traceparent_wins_over_the_header_of_x_ray() -> None:
    assert continue_trace(TRACEPARENT, 7, f"Root=1-{'1' * 8}-{'1' * 24}").trace_id == TRACE


def test_the_header_for_x_ray_is_read_back() -> None:
    trace = continue_trace(TRACEPARENT, 0xABC)

    header = for_xray(trace.traceparent)

    assert header == f"Root={ROOT};Parent=0000000000000abd;Sampled=1"
    assert continue_trace(None, 1, header).parent_span_id == trace.span_id
    assert for_xray(f"00-{TRACE}-{SPAN}-00") == f"Root={ROOT};Parent={SPAN};Sampled=0"
    assert for_xray("") is None
