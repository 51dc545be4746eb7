"""The limits in Redis: never more places than there are, tokens by the time, and the session that waited longest comes next."""

from uuid import uuid4

import pytest

from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import (
    Done,
    FleetLimits,
    GiveBack,
    Gone,
    Keep,
    Pause,
    Places,
    Refused,
    Step,
    Take,
    WaitingSession,
)
from turnstile.limits.rules import Amounts, Want


def want(value: str = "v", weight: int = 1, *, limit: str = "l", **amounts: float | None) -> Want:
    given = {"concurrency": None, "rate": None, "burst": None, **amounts}
    return Want(limit=limit, value=value, weight=weight, amounts=Amounts(**given))  # type: ignore[arg-type]


def take(*wants: Want, session: str = "s", since: int = 0) -> Take:
    return Take(Places(uuid4().hex, wants), WaitingSession("t", session, since))


async def answers(fleet: FleetLimits, *steps: Step) -> list[object]:
    outcome = await fleet.run(steps)
    assert outcome is not None
    return list(outcome.answers)


async def called(fleet: FleetLimits, *steps: Step) -> list[str]:
    outcome = await fleet.run(steps)
    assert outcome is not None
    return [session.session_id for session in outcome.called]


def is_refused(answer: object) -> bool:
    return isinstance(answer, Refused)


async def test_so_many_turns_run_as_there_are_places_of_each_key(fleet: FleetLimits) -> None:
    two = want(concurrency=2)

    asked = [take(two, session=str(number)) for number in range(4)]
    found = await answers(fleet, *asked, take(want("other", concurrency=2)))

    assert [is_refused(answer) for answer in found] == [False, False, True, True, False]
    assert await answers(fleet, GiveBack(asked[0].places), take(two, session="2")) == [Done()] * 2


async def test_a_turn_of_more_weight_takes_more_places(fleet: FleetLimits) -> None:
    heavy, light = want(weight=3, concurrency=4), want(concurrency=4)

    found = await answers(fleet, take(heavy), take(heavy), take(light), take(light))

    assert [is_refused(answer) for answer in found] == [False, True, False, True]


async def test_a_turn_gets_all_its_limits_or_none(fleet: FleetLimits) -> None:
    free, full = want(limit="free", concurrency=1), want(limit="full", concurrency=1)
    await answers(fleet, take(full))

    [refused] = await answers(fleet, take(free, full))

    assert isinstance(refused, Refused)
    assert refused.want == full
    assert await answers(fleet, take(free)) == [Done()]


async def test_the_places_of_a_dead_worker_come_free(fleet: FleetLimits, settings: Settings) -> None:
    one = want(concurrency=1)
    await answers(fleet, take(one))

    async def is_free() -> bool:
        return await answers(fleet, take(one)) == [Done()]

    assert not await is_free()
    await until(is_free)


async def test_places_that_are_kept_do_not_come_free(fleet: FleetLimits, settings: Settings) -> None:
    kept, left = take(want("kept", concurrency=1)), take(want("left", concurrency=1))
    await answers(fleet, kept, left)

    async def has_left() -> bool:
        [answer, _] = await answers(fleet, take(want("left", concurrency=1)), Keep(kept.places))
        return answer == Done()

    await until(has_left, every=settings.lease_seconds / 10)

    assert [is_refused(answer) for answer in await answers(fleet, take(want("kept", concurrency=1)))] == [True]


async def test_places_that_are_gone_are_taken_again_only_if_asked(fleet: FleetLimits) -> None:
    one = take(want(concurrency=1))

    assert await answers(fleet, Keep(one.places)) == [Gone()]
    assert await answers(fleet, Keep(one.places, anew=True), Keep(one.places)) == [Done(), Done()]
    assert [is_refused(answer) for answer in await answers(fleet, take(want(concurrency=1)))] == [True]


async def test_a_free_place_calls_the_session_that_has_waited_longest_and_waits_for_it(fleet: FleetLimits) -> None:
    one = want(concurrency=1)
    running = take(one)
    for session in ("first", "second"):
        await answers(fleet, *([running] if session == "first" else []), take(one, session=session))

    assert await called(fleet, GiveBack(running.places)) == ["first"]
    assert [is_refused(answer) for answer in await answers(fleet, take(one, session="newcomer"))] == [True]
    assert await answers(fleet, take(one, session="first", since=1)) == [Done()]


async def test_who_comes_when_a_place_is_given_back_does_not_go_before_those_who_wait(fleet: FleetLimits) -> None:
    one = want(concurrency=1)
    running = take(one, session="running")
    await answers(fleet, running, take(one, session="waiting"))

    outcome = await fleet.run([GiveBack(running.places), take(one, session="running")])

    assert outcome is not None
    assert is_refused(outcome.answers[1])
    assert [session.session_id for session in outcome.called] == ["waiting"]


async def test_tokens_come_with_the_time_and_each_session_gets_a_time_of_its_own(fleet: FleetLimits) -> None:
    rated = want(rate=10.0, burst=1)

    found = await answers(fleet, *(take(rated, session=str(number)) for number in range(3)))

    assert found[0] == Done()
    waits = [answer.seconds for answer in found[1:] if isinstance(answer, Refused) and answer.exact]
    assert waits == [pytest.approx(0.1, abs=0.01), pytest.approx(0.2, abs=0.01)]

    async def has_begun() -> bool:
        return await answers(fleet, take(rated, session="1")) == [Done()]

    await until(has_begun)
    assert [is_refused(answer) for answer in await answers(fleet, take(rated, session="newcomer"))] == [True]


async def test_a_session_that_asks_too_early_keeps_its_time(fleet: FleetLimits) -> None:
    rated = want(rate=1.0, burst=1)
    await answers(fleet, take(rated))

    [first] = await answers(fleet, take(rated, session="a"))
    [again] = await answers(fleet, take(rated, session="a"))

    assert isinstance(first, Refused)
    assert isinstance(again, Refused)
    assert again.seconds <= first.seconds


async def test_tokens_of_a_turn_that_did_not_begin_come_back(fleet: FleetLimits) -> None:
    rated = want(rate=0.001, burst=1)
    asked = take(rated)

    assert await answers(fleet, asked, GiveBack(asked.places, unused=True), take(rated)) == [Done()] * 3


async def test_a_paused_key_lets_nothing_begin_until_then(fleet: FleetLimits) -> None:
    one, other = want(concurrency=5), want("other", concurrency=5)
    await answers(fleet, Pause(one, 30.0))

    [refused, elsewhere] = await answers(fleet, take(one), take(other))

    assert isinstance(refused, Refused)
    assert 0 < refused.seconds <= 30.0
    assert elsewhere == Done()
