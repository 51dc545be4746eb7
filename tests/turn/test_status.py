"""The transition table: what it allows, over any sequence of wishes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.turn.status import OPEN, TRANSITIONS, TurnStatus, mermaid

wishes = st.lists(st.sampled_from(TurnStatus), max_size=40)


def life(wanted: list[TurnStatus]) -> list[TurnStatus]:
    """The statuses that a turn goes through when each wish is granted where the table allows it."""
    lived: list[TurnStatus] = []
    for wish in wanted:
        if wish in TRANSITIONS[lived[-1] if lived else None]:
            lived.append(wish)
    return lived


@settings(deadline=None)
@given(wishes)
def test_every_life_begins_pending_unless_it_was_cancelled_before(wanted: list[TurnStatus]) -> None:
    lived = life(wanted)

    assert lived[:1] in ([], [TurnStatus.PENDING]) or lived == [TurnStatus.CANCELED]


@settings(deadline=None)
@given(wishes)
def test_success_and_cancel_are_the_end_of_every_life(wanted: list[TurnStatus]) -> None:
    lived = life(wanted)

    assert not {TurnStatus.SUCCEEDED, TurnStatus.CANCELED} & set(lived[:-1])


@settings(deadline=None)
@given(wishes)
def test_only_a_running_turn_succeeds_or_fails(wanted: list[TurnStatus]) -> None:
    lived = life(wanted)

    results = (TurnStatus.SUCCEEDED, TurnStatus.FAILED)
    assert all(before is TurnStatus.RUNNING for before, after in itertools.pairwise(lived) if after in results)


@settings(deadline=None)
@given(wishes)
def test_a_failed_turn_comes_back_as_pending_or_not_at_all(wanted: list[TurnStatus]) -> None:
    lived = life(wanted)

    followers = {after for before, after in itertools.pairwise(lived) if before is TurnStatus.FAILED}
    assert followers <= {TurnStatus.PENDING}


@pytest.mark.parametrize("status", TurnStatus)
def test_every_status_can_be_reached(status: TurnStatus) -> None:
    reached: set[TurnStatus | None] = {None}
    for _ in TurnStatus:
        reached |= {after for before in reached for after in TRANSITIONS[before]}

    assert status in reached


@pytest.mark.parametrize("status", TurnStatus)
def test_only_running_may_follow_itself(status: TurnStatus) -> None:
    assert (status in TRANSITIONS[status]) is (status is TurnStatus.RUNNING)


@pytest.mark.parametrize("status", TurnStatus)
def test_a_status_is_open_or_terminal_and_never_both(status: TurnStatus) -> None:
    assert status.is_open is (status in {TurnStatus.PENDING, TurnStatus.RUNNING})
    assert status.is_terminal is not status.is_open


def test_every_open_status_leads_to_an_end() -> None:
    for status in OPEN:
        assert any(after.is_terminal for after in TRANSITIONS[status])


def test_the_diagram_draws_each_transition_and_no_other() -> None:
    arrows = {line.strip() for line in mermaid().splitlines() if ": " in line}

    assert arrows == {
        f"{before or '[*]'} --> {after}: {verb}"
        for before, follows in TRANSITIONS.items()
        for after, verb in follows.items()
    }


def test_the_diagram_ends_at_the_terminal_statuses() -> None:
    ends = {line.strip() for line in mermaid().splitlines() if line.endswith("--> [*]")}

    assert ends == {"SUCCEEDED --> [*]", "FAILED --> [*]", "CANCELED --> [*]"}
