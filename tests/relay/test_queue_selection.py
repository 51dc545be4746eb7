"""Which queues a relay takes rows of: all that it knows, but those that have just refused."""

import pytest

from turnstile.relay.queue_selection import (
    BATCH,
    EVER_SECONDS,
    FULL_SCAN_EVERY_SECONDS,
    PROBE,
    Ask,
    Line,
    RelayQueues,
    tick_seconds,
)

A, B = Line("a", False), Line("b", False)
DEAD_A, DEAD_B = Line("a", True), Line("b", True)
LONGEST = 15.0


@pytest.fixture
def queues() -> RelayQueues:
    return RelayQueues(["a", "b"], LONGEST)


def lines(asks: list[Ask]) -> set[Line]:
    return {ask.line for ask in asks}


def ask_for(queues: RelayQueues, line: Line, now: float) -> Ask | None:
    return next((ask for ask in queues.choose(now, ()) if ask.line == line), None)


def test_every_queue_is_asked_for_its_wake_ups_and_for_its_dead_letters(queues: RelayQueues) -> None:
    asks = queues.choose(0.0, ())

    assert lines(asks) == {A, B, DEAD_A, DEAD_B}
    assert {ask.limit for ask in asks} == {BATCH}


def test_a_line_with_sends_under_way_is_not_asked_for(queues: RelayQueues) -> None:
    assert lines(queues.choose(0.0, {A})) == {B, DEAD_A, DEAD_B}


def test_a_paused_queue_gets_no_wake_ups_but_its_dead_letters(queues: RelayQueues) -> None:
    assert lines(queues.choose(0.0, (), {"a"})) == {B, DEAD_A, DEAD_B}
    assert lines(queues.choose(0.0, ())) == {A, B, DEAD_A, DEAD_B}


def test_a_refused_line_is_left_alone_and_then_tried_with_a_few_rows(queues: RelayQueues) -> None:
    queues.failed(A, 100.0, chance=1.0)

    assert lines(queues.choose(101.9, ())) == {B, DEAD_A, DEAD_B}
    probe = ask_for(queues, A, 102.0)
    assert probe is not None
    assert probe.limit == PROBE
    assert probe.reach_seconds == EVER_SECONDS, "what was given back is as old as it was"
    queues.sent(A)
    again = ask_for(queues, A, 102.0)
    assert again is not None
    assert again.limit == BATCH


def test_the_pause_doubles_up_to_the_longest(queues: RelayQueues) -> None:
    pauses = []
    now = 0.0
    for _ in range(6):
        queues.failed(A, now, chance=1.0)
        begins_at = now
        while ask_for(queues, A, begins_at) is None:
            begins_at += 0.5
        pauses.append(begins_at - now)
        now = begins_at

    assert pauses == [2, 4, 8, 15, 15, 15]


def test_half_of_the_pause_is_chance(queues: RelayQueues) -> None:
    queues.failed(A, 0.0, chance=0.0)

    assert ask_for(queues, A, 0.9) is None
    assert ask_for(queues, A, 1.0) is not None


def test_the_scan_is_full_once_a_minute_when_the_old_end_was_found_empty(queues: RelayQueues) -> None:
    first = ask_for(queues, A, 0.0)
    assert first is not None
    assert first.reach_seconds == EVER_SECONDS
    queues.taken(first, BATCH, 0.0)
    second = ask_for(queues, A, 1.0)
    assert second is not None
    assert second.reach_seconds == EVER_SECONDS, "there was as much as was asked for"
    queues.taken(second, BATCH - 1, 1.0)

    third = ask_for(queues, A, 2.0)
    assert third is not None
    assert third.reach_seconds == 2 * FULL_SCAN_EVERY_SECONDS
    later = ask_for(queues, A, 1.1 + FULL_SCAN_EVERY_SECONDS)
    assert later is not None
    assert later.reach_seconds == EVER_SECONDS


def test_the_tick_is_longer_and_shorter_by_chance() -> None:
    assert [tick_seconds(2.0, chance) for chance in (0.0, 0.5, 1.0)] == [1.5, 2.0, 2.5]
