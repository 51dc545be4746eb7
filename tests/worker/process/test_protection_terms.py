"""When ECS is asked to spare a task: while there is work, not for ever, and not at each message."""

from collections.abc import Callable
from itertools import pairwise

from turnstile.worker.process.scale_in_protection import Standing, Terms, Wish, decide, refused, seen, told

TERMS = Terms()
EXPIRY = TERMS.expires_minutes * 60


def play(
    busy: Callable[[int], bool], seconds: int, agent_works: Callable[[int], bool] = lambda _: True
) -> list[tuple[int, Wish]]:
    """What the agent is told in so many seconds, looked at once a second."""
    standing, calls = Standing(), []
    for now in range(seconds):
        standing = seen(standing, busy=busy(now), now=now, terms=TERMS)
        wish = decide(standing, now, TERMS)
        if wish is not Wish.NOTHING:
            calls.append((now, wish))
            after = told if agent_works(now) else refused
            standing = after(standing, wish, now, TERMS)
    return calls


def test_a_worker_without_work_says_nothing() -> None:
    assert play(lambda _: False, 3600) == []


def test_protection_begins_with_the_work_and_ends_a_while_after_it() -> None:
    assert play(lambda now: now < 10, 600) == [(0, Wish.PROTECT), (9 + 30, Wish.RELEASE)]


def test_it_is_not_toggled_by_each_message() -> None:
    """One second of work, nine without, for a minute and a half."""
    assert play(lambda now: now % 10 == 0, 95) == [(0, Wish.PROTECT)]


def test_it_is_renewed_well_before_it_expires() -> None:
    asked = [now for now, wish in play(lambda _: True, 800) if wish is Wish.PROTECT]

    assert max(later - earlier for earlier, later in pairwise(asked)) <= EXPIRY / 2


def test_under_work_without_a_pause_a_stretch_ends_and_leaves_ecs_a_window() -> None:
    calls = play(lambda _: True, 2000)

    released = next(now for now, wish in calls if wish is Wish.RELEASE)
    protected_again = next(now for now, wish in calls if wish is Wish.PROTECT and now > released)
    assert released == TERMS.stretch_seconds
    assert protected_again - released == TERMS.open_seconds


def test_work_that_comes_back_after_the_end_is_protected_at_once() -> None:
    calls = play(lambda now: now < 5 or now >= 40, 60)

    assert calls == [(0, Wish.PROTECT), (34, Wish.RELEASE), (40, Wish.PROTECT)]


def test_an_agent_that_refuses_is_asked_less_and_less_often() -> None:
    calls = play(lambda _: True, 250, agent_works=lambda _: False)

    assert [now for now, _ in calls] == [0, 5, 15, 35, 75, 155]


def test_what_was_refused_once_is_asked_again_soon() -> None:
    calls = play(lambda _: True, 60, agent_works=lambda now: now > 0)

    assert calls == [(0, Wish.PROTECT), (5, Wish.PROTECT)]


def test_a_call_without_an_answer_may_have_been_heard_and_is_taken_back() -> None:
    calls = play(lambda now: now < 1, 120, agent_works=lambda now: now > 0)

    assert calls == [(0, Wish.PROTECT), (5, Wish.PROTECT), (30, Wish.RELEASE)]


def test_a_release_that_does_not_get_through_is_not_tried_beyond_the_expiry() -> None:
    calls = play(lambda now: now < 1, 4 * EXPIRY, agent_works=lambda now: now < 30)

    assert max(now for now, _ in calls) < EXPIRY
