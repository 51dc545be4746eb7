"""Places: bounded, and never all of them for one tenant."""

from contextlib import ExitStack, suppress

import pytest
from structlog.testing import capture_logs

from tests.support.probes import let_the_loop_turn
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.http.problems import Kind
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError


def places_of(most: int, *, shared: bool = True) -> FairPlaces:
    return FairPlaces(most, "things", shared=shared)


def fill(places: FairPlaces, tenant: str, held: ExitStack) -> tuple[int, Kind]:
    """Takes what the tenant can get. How many that are, and how the next is refused."""
    taken = 0
    while True:
        try:
            held.enter_context(places.take(tenant))
        except NoPlaceError as refused:
            return taken, refused.kind
        taken += 1


async def test_a_tenant_gets_at_most_three_quarters_of_the_free_places() -> None:
    places = places_of(100)
    with ExitStack() as held:
        found = [fill(places, tenant, held) for tenant in ("a", "b", "c")]

    assert found == [(75, Kind.TOO_MANY_REQUESTS), (18, Kind.TOO_MANY_REQUESTS), (5, Kind.TOO_MANY_REQUESTS)]


async def test_the_only_tenant_gets_all_places() -> None:
    places = places_of(100, shared=False)
    with ExitStack() as held:
        assert fill(places, "a", held) == (100, Kind.UNAVAILABLE)


@pytest.mark.parametrize("newcomers", [1, 4])
async def test_newcomers_get_equal_shares_as_places_become_free(newcomers: int) -> None:
    places, most = places_of(160), 160
    held: dict[str, list[ExitStack]] = {str(tenant): [] for tenant in range(1 + newcomers)}

    def try_to_take(tenant: str) -> None:
        place = ExitStack()
        with suppress(NoPlaceError):
            place.enter_context(places.take(tenant))
            held[tenant].append(place)

    for _ in range(most):
        try_to_take("0")
    for _ in range(10 * most):
        # The first is the first to ask for the place that it gives back.
        for tenant in held:
            try_to_take(tenant)
        max(held.values(), key=len).pop().close()

    shares = [len(own) for own in held.values()]
    assert max(shares) - min(shares) <= 2
    assert most // 2 < sum(shares) < most
    for own in held.values():
        for place in own:
            place.close()


async def test_small_numbers_leave_one_for_another_tenant() -> None:
    for most in (2, 3, 4):
        places = places_of(most)
        with ExitStack() as held:
            assert fill(places, "a", held) == (most - 1, Kind.TOO_MANY_REQUESTS)
            assert fill(places, "b", held)[0] == 1


async def test_a_tenant_without_a_place_is_refused_with_503() -> None:
    places = places_of(1)
    with places.take("a"), pytest.raises(NoPlaceError) as refused, places.take("b"):
        pass

    assert refused.value.kind is Kind.UNAVAILABLE
    assert refused.value.headers == {"Retry-After": "2"}


async def test_a_place_is_free_after_its_block() -> None:
    places = places_of(2)
    for _ in range(10):
        with places.take("a"):
            pass

    with places.take("b"):
        pass


async def test_a_call_that_waited_too_long_behind_its_tenants_others_is_refused_for_them() -> None:
    places = places_of(4)
    with places.take("a") as before_first, places.take("a") as before_second:
        refusals = [await places.refuse_wait("a", own, answered=lambda: True) for own in (before_first, before_second)]

    kinds = [refused.kind for refused in refusals if isinstance(refused, NoPlaceError)]
    assert kinds == [Kind.UNAVAILABLE, Kind.TOO_MANY_REQUESTS]


async def test_a_wait_in_which_the_database_answered_nobody_is_an_outage_and_no_overload() -> None:
    assert isinstance(await places_of(4).refuse_wait("a", 1, answered=lambda: False), DatabaseUnavailableError)


async def test_refusals_are_counted_in_few_lines_of_the_log() -> None:
    places = places_of(4)
    with ExitStack() as held, capture_logs() as logs:
        for _ in range(20):
            fill(places, "a", held)
        await let_the_loop_turn(1)

    assert [line for line in logs if line["event"] == "api.overloaded"] == [
        {
            "event": "api.overloaded",
            "log_level": "warning",
            "count": 1,
            "what": "things",
            "tenant_id": "a",
            "own": 3,
            "free": 1,
        }
    ]


async def test_a_call_without_a_connection_is_refused_as_overload_by_the_share_of_its_tenant() -> None:
    places = places_of(4)
    refusals = []
    with capture_logs() as logs, ExitStack() as held:
        for _ in range(2):
            with pytest.raises(NoPlaceError) as refused, places.take("a"):
                raise ConnectionsBusyError
            refusals.append(refused.value.kind)
            held.enter_context(places.take("a"))
        assert held.enter_context(places.take("a")) == 2

    assert refusals == [Kind.UNAVAILABLE, Kind.TOO_MANY_REQUESTS]
    assert [line["event"] for line in logs] == ["api.overloaded"]
