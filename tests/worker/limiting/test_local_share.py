"""Without Redis each worker keeps an equal part of each limit, and at least one place."""

from turnstile.limits.rules import Amounts, Want
from turnstile.worker.limiting.local_share import LocalShare

NOW = 1_000.0


def want(weight: int = 1, concurrency: int | None = None, rate: float | None = None, burst: int | None = None) -> Want:
    return Want(limit="l", value="v", weight=weight, amounts=Amounts(concurrency=concurrency, rate=rate, burst=burst))


def begun(share: LocalShare, one: Want, now: float = NOW) -> bool:
    if share.take([one], now) is not None:
        return False
    share.enter([one])
    return True


def test_the_places_are_divided_among_the_workers() -> None:
    share = LocalShare()
    share.workers = 3

    assert [begun(share, want(concurrency=6)) for _ in range(3)] == [True, True, False]
    share.leave([want(concurrency=6)])
    assert begun(share, want(concurrency=6))


def test_a_worker_has_one_place_at_least_also_for_a_heavy_turn() -> None:
    share = LocalShare()
    share.workers = 10

    assert begun(share, want(weight=3, concurrency=4))
    assert not begun(share, want(weight=3, concurrency=4))


def test_the_rate_is_divided_too() -> None:
    share = LocalShare()
    share.workers = 2
    one = want(rate=2.0, burst=2)

    assert [begun(share, one), begun(share, one)] == [True, False]
    assert begun(share, one, NOW + 1.0)
    assert not begun(share, one, NOW + 1.5)


def test_turns_that_began_with_redis_count() -> None:
    share = LocalShare()
    share.enter([want(concurrency=1)])

    assert not begun(share, want(concurrency=1))
