"""Places for streams and waits: bounded, and never all of them for one tenant."""

from contextlib import ExitStack

import pytest

from turnstile.producer.http.problems import Kind
from turnstile.producer.watch.watch_limits import NoPlaceError, WatchPlaces


def fill(places: WatchPlaces, tenant: str, held: ExitStack) -> tuple[int, Kind]:
    """Takes what the tenant can get. How many that are, and how the next is refused."""
    taken = 0
    while True:
        try:
            held.enter_context(places.take(tenant))
        except NoPlaceError as refused:
            return taken, refused.kind
        taken += 1


async def test_a_tenant_gets_at_most_half_of_the_free_places() -> None:
    places = WatchPlaces(100, shared=True)
    with ExitStack() as held:
        found = [fill(places, tenant, held) for tenant in ("a", "b", "c")]

        assert found == [(50, Kind.TOO_MANY_STREAMS), (25, Kind.TOO_MANY_STREAMS), (13, Kind.TOO_MANY_STREAMS)]


async def test_the_only_tenant_gets_all_places() -> None:
    places = WatchPlaces(100, shared=False)
    with ExitStack() as held:
        assert fill(places, "a", held) == (100, Kind.UNAVAILABLE)


async def test_a_tenant_without_a_place_is_refused_with_503() -> None:
    places = WatchPlaces(1, shared=True)
    with places.take("a"), pytest.raises(NoPlaceError) as refused, places.take("b"):
        pass

    assert refused.value.kind is Kind.UNAVAILABLE
    assert refused.value.headers == {"Retry-After": "2"}


async def test_a_place_is_free_after_its_block() -> None:
    places = WatchPlaces(2, shared=True)
    for _ in range(10):
        with places.take("a"):
            pass

    with places.take("b"):
        pass
