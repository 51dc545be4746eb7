"""How refused credentials are counted: by client, in bounded memory, in a bounded number of rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.producer.http.refusal_window import (
    MOST_ADDRESSES,
    MOST_NAMED,
    OTHERS,
    UNKNOWN,
    RefusalWindow,
    name_client,
)


def test_refusals_are_counted_by_client_and_reason_the_most_first() -> None:
    window = RefusalWindow()
    for client, reason in [("a", "missing"), ("b", "unknown"), ("b", "unknown"), ("b", "missing")]:
        window.note(client, reason)

    assert window.counts == [("b", {"unknown": 2, "missing": 1}), ("a", {"missing": 1})]


def test_many_clients_are_few_rows_and_no_refusal_is_left_out() -> None:
    window = RefusalWindow()
    for number in range(MOST_ADDRESSES * 3):
        window.note(f"client {number}", "unknown")
    window.note("client 7", "unknown")

    (first, *_), (others, rest) = window.counts[:-1], window.counts[-1]

    assert len(window.counts) == MOST_NAMED + 1
    assert first == ("client 7", {"unknown": 2})
    assert (others, rest) == (OTHERS, {"unknown": MOST_ADDRESSES * 3 - MOST_NAMED})


def test_many_clients_are_bounded_memory() -> None:
    window = RefusalWindow()
    for number in range(MOST_ADDRESSES * 3):
        window.note(f"client {number}", "unknown")

    assert len(window.by_address) == MOST_ADDRESSES


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from(["missing", "unknown"]))), st.integers(0)
)
def test_two_windows_together_have_the_refusals_of_both(refusals: list[tuple[str, str]], cut: int) -> None:
    one, other, whole = RefusalWindow(), RefusalWindow(), RefusalWindow()
    for place, refusal in enumerate(refusals):
        (one if place < cut else other).note(*refusal)
        whole.note(*refusal)
    one.add(other)

    assert sum(sum(counts.values()) for _, counts in one.counts) == len(refusals)
    assert one.by_address == whole.by_address


@pytest.mark.parametrize(
    ("peer", "forwarded", "name"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("::ffff:203.0.113.9", [], "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"),
        (None, [], UNKNOWN),
        ("10.0.0.7", ["203.0.113.9"], "10.0.0.7 for 203.0.113.9"),
        ("10.0.0.7", ["192.0.2.1, 203.0.113.9"], "10.0.0.7 for 203.0.113.9"),
        ("10.0.0.7", ["192.0.2.1", "203.0.113.9"], "10.0.0.7 for 203.0.113.9"),
        ("10.0.0.7", ["turn.failed error=x"], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.9,"], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.9\n"], "10.0.0.7 for 203.0.113.9"),
        ("10.0.0.7", ["fe80::1%turn.failed"], "10.0.0.7 for fe80::/64"),
    ],
)
def test_a_client_has_the_address_of_its_connection_and_what_the_last_proxy_says(
    peer: str | None, forwarded: list[str], name: str
) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]

    assert name_client(peer, [(b"host", b"api"), *headers]) == name
