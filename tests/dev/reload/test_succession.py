"""Which worker of `turnstile dev` takes turns: the one before leaves only when a new one has loaded its code."""

import pytest

from turnstile.dev.reload.succession import (
    SHORT_LIFE_SECONDS,
    CodeChanged,
    Command,
    Ended,
    Event,
    Kill,
    KillAsked,
    Leave,
    Loaded,
    Start,
    Unfit,
    Workers,
    follow,
)

LONG = SHORT_LIFE_SECONDS + 1
SHORT = SHORT_LIFE_SECONDS / 2
UP = (CodeChanged(), Loaded(1))


def play(*events: Event) -> tuple[Workers, list[Command]]:
    """The workers after these events, and what the last of them asked for."""
    workers, commands = Workers(), list[Command]()
    for event in events:
        workers, commands = follow(workers, event)
    return workers, commands


def test_the_first_worker_serves_when_it_has_loaded_the_code() -> None:
    assert play(CodeChanged()) == (Workers(newest=1, loading=1), [Start(1)])
    assert play(*UP) == (Workers(newest=1, serving=1), [])


def test_the_worker_before_serves_until_the_new_code_is_loaded() -> None:
    changed, started = play(*UP, CodeChanged())
    loaded, left = play(*UP, CodeChanged(), Loaded(2))

    assert (changed.serving, started) == (1, [Start(2)])
    assert (loaded.serving, left) == (2, [Leave(1)])


def test_code_that_does_not_load_replaces_nothing() -> None:
    workers, commands = play(*UP, CodeChanged(), Unfit(2, "SyntaxError"), Ended(2, 2, SHORT))

    assert (workers, commands) == (Workers(newest=2, serving=1, fault="SyntaxError"), [])


def test_the_next_change_that_loads_takes_the_fault_away() -> None:
    workers, commands = play(*UP, CodeChanged(), Unfit(2, "SyntaxError"), CodeChanged(), Loaded(3))

    assert (workers, commands) == (Workers(newest=3, serving=3), [Leave(1)])


def test_a_change_while_code_is_loaded_kills_the_one_that_loads_and_has_taken_no_turn() -> None:
    workers, commands = play(*UP, CodeChanged(), CodeChanged())

    assert (workers, commands) == (Workers(newest=3, loading=3, serving=1), [Kill(2), Start(3)])
    # Its report may have been under way.
    assert follow(workers, Loaded(2)) == (workers, [])
    assert follow(workers, Ended(2, -9, SHORT)) == (workers, [])


def test_a_killed_worker_is_replaced_however_young_it_was() -> None:
    killed, kill = play(*UP, KillAsked())
    after, start = follow(killed, Ended(1, -9, SHORT))

    assert kill == [Kill(1)]
    assert (after, start) == (Workers(newest=2, loading=2), [Start(2)])


@pytest.mark.parametrize("events", [(), (CodeChanged(),), (CodeChanged(), Unfit(1, "SyntaxError"))])
def test_where_no_worker_serves_there_is_none_to_kill(events: tuple[Event, ...]) -> None:
    assert play(*events, KillAsked())[1] == []


def test_a_worker_that_ends_after_a_while_is_replaced() -> None:
    assert play(*UP, Ended(1, 70, LONG)) == (Workers(newest=2, loading=2), [Start(2)])


def test_a_worker_that_ends_at_once_waits_for_a_change() -> None:
    workers, commands = play(*UP, Ended(1, 4, SHORT))

    assert commands == []
    assert workers.serving is None
    assert workers.fault is not None
    assert "exit code 4" in workers.fault
    assert follow(workers, CodeChanged())[1] == [Start(2)]


def test_code_that_ends_its_process_while_it_loads_is_a_fault() -> None:
    workers, commands = play(*UP, CodeChanged(), Ended(2, 7, SHORT))

    assert (workers.serving, workers.loading, commands) == (1, None, [])
    assert workers.fault is not None
    assert "exit code 7" in workers.fault


def test_a_worker_that_dies_while_the_next_one_loads_is_not_replaced_twice() -> None:
    workers, commands = play(*UP, CodeChanged(), Ended(1, -9, LONG))

    assert (workers, commands) == (Workers(newest=2, loading=2), [])


def test_the_end_of_a_worker_that_has_left_changes_nothing() -> None:
    workers, commands = play(*UP, CodeChanged(), Loaded(2), Ended(1, 0, LONG))

    assert (workers, commands) == (Workers(newest=2, serving=2), [])
