"""The order in which a redrive puts turns back. Pure."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from tests.support.records import make_record
from turnstile.ops.dead_letters.redrive import in_session_order


def make_turns(*turns: tuple[str, int]) -> list[Any]:
    return [
        replace(make_record(UUID(int=place)), session_id=name, seq=seq) for place, (name, seq) in enumerate(turns, 1)
    ]


def test_a_sessions_turns_go_by_seq_and_sessions_keep_their_places() -> None:
    turns = make_turns(("a", 3), ("b", 1), ("a", 1), ("c", 7), ("a", 2))

    ordered = in_session_order(turns)

    assert [(turn.session_id, turn.seq) for turn in ordered] == [("a", 1), ("b", 1), ("a", 2), ("c", 7), ("a", 3)]
    assert {turn.id for turn in ordered} == {turn.id for turn in turns}


def test_the_same_session_name_of_two_tenants_is_two_sessions() -> None:
    one, other = make_turns(("a", 2), ("a", 1))

    assert in_session_order([one, replace(other, tenant_id="u")])[0].seq == 2
