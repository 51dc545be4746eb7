"""When ECS is asked for scale-in protection: while there is work, not for ever, and not for each message."""

from collections.abc import Callable

from turnstile.worker.lifecycle.scale_in_protection import Protection, ProtectionTerms

TERMS = ProtectionTerms()


def play(
    busy: Callable[[int], bool], seconds: int, agent_works: Callable[[int], bool] = lambda _: True
) -> list[tuple[int, bool]]:
    """The calls of so many seconds, with one look a second."""
    protection, calls = Protection(TERMS), []
    for now in range(seconds):
        wanted = protection.next_call(busy=busy(now), now=now)
        if wanted is not None:
            calls.append((now, wanted))
            if agent_works(now):
                protection.succeeded(protected=wanted, now=now)
            else:
                protection.failed(now)
    return calls


def test_an_idle_worker_asks_for_nothing() -> None:
    assert play(lambda _: False, 3600) == []


def test_protection_begins_with_the_work_and_is_given_back_half_a_minute_after_it() -> None:
    assert play(lambda now: now < 10, 600) == [(0, True), (9 + 30, False)]


def test_short_pauses_do_not_toggle_protection() -> None:
    """One second of work, nine without, for a minute and a half."""
    assert play(lambda now: now % 10 == 0, 95) == [(0, True)]


def test_protection_runs_out_under_steady_work_and_leaves_ecs_a_window() -> None:
    assert play(lambda _: True, 1000) == [(0, True), (900 + 90, True)]


def test_a_refused_call_is_repeated_after_half_a_minute() -> None:
    assert play(lambda _: True, 100, agent_works=lambda now: now >= 60) == [(0, True), (30, True), (60, True)]


def test_a_refused_release_is_not_repeated_after_the_protection_has_run_out() -> None:
    calls = play(lambda now: now < 1, 4000, agent_works=lambda now: now < 30)

    assert max(now for now, _ in calls) < TERMS.protected_seconds
