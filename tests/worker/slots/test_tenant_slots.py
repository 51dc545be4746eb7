"""A tenant's share of a worker's slots, and its line (G20)."""

import pytest

from turnstile.worker.slots.tenant_slots import (
    LEAST_PUT_OFF_SECONDS,
    MAX_WAITING,
    MOST_DEFER_SECONDS,
    REMEMBERED_SECONDS,
    TURN_SECONDS,
    TenantShare,
    TenantSlots,
)

NOW = 1000.0
LATER = NOW + REMEMBERED_SECONDS + 1.0


def slots_of(share: TenantShare, count: int = 64) -> TenantSlots:
    return TenantSlots(share, count)


def flood(slots: TenantSlots, *tenants: str, now: float = NOW) -> list[int]:
    """So many slots each tenant gets if all of them have more sessions than there are slots."""
    got = dict.fromkeys(tenants, 0)
    for n in range(100):
        for tenant in tenants:
            slots.see(tenant, now)
            got[tenant] += slots.enter(tenant, f"s{n}", now)
    return list(got.values())


# --- a share of so many slots


def test_a_tenant_takes_so_many_slots_and_no_more() -> None:
    slots = slots_of(2)

    assert [slots.enter("a", f"s{n}", NOW) for n in range(3)] == [True, True, False]
    assert not slots.has_room("a", NOW)


def test_another_tenant_does_not_notice() -> None:
    slots = slots_of(1)
    slots.enter("a", "s", NOW)

    assert slots.enter("b", "s", NOW)


def test_such_a_share_is_kept_by_a_tenant_that_is_alone() -> None:
    assert flood(slots_of(2), "a") == [2]


def test_a_slot_that_was_given_back_can_be_taken() -> None:
    slots = slots_of(1)
    slots.enter("a", "s", NOW)
    slots.leave("a")

    assert slots.enter("a", "s", NOW)


def test_where_there_is_no_share_there_is_always_room() -> None:
    slots = slots_of("all")

    assert flood(slots, "a", "b") == [100, 100]
    assert not slots.must_look("a", NOW)


# --- fair shares


@pytest.mark.parametrize("count", [1, 2, 16, 64])
def test_a_tenant_that_is_alone_has_all_slots_and_what_is_taken_in_ahead(count: int) -> None:
    assert flood(slots_of("fair", count), "a") == [100]


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 1), (3, 2), (4, 3), (16, 12), (64, 48)])
def test_beside_another_a_flood_has_three_quarters_and_leaves_one_at_least(count: int, most: int) -> None:
    slots = slots_of("fair", count)
    slots.see("b", NOW)

    assert flood(slots, "a") == [most]


@pytest.mark.parametrize("tenants", ["ab", "abc", "abcdefg"])
def test_tenants_that_flood_together_have_equal_shares_and_leave_one_free(tenants: str) -> None:
    got = flood(slots_of("fair", 64), *tenants)

    assert max(got) - min(got) <= 1
    assert 64 * 3 // 4 <= sum(got) < 64


@pytest.mark.parametrize("tenants", ["abcdefgh", "abcdefghij"])
def test_where_many_share_a_worker_all_slots_are_used(tenants: str) -> None:
    slots = slots_of("fair", 64)
    for n in range(6):
        for tenant in tenants:
            slots.enter(tenant, f"s{n}", NOW)

    for n in range(64 - 6 * len(tenants)):
        assert slots.enter(tenants[n % len(tenants)], f"t{n}", NOW)


def test_a_newcomer_is_not_turned_away_from_slots_that_one_had_taken_alone() -> None:
    slots = slots_of("fair", 4)
    for n in range(4):
        slots.enter("a", f"s{n}", NOW)

    slots.see("b", NOW)

    assert slots.enter("b", "s", NOW)
    assert not slots.enter("a", "one more", NOW)


def test_slots_are_kept_free_for_a_while_after_the_last_of_another() -> None:
    slots = slots_of("fair", 4)
    slots.see("b", NOW)
    for n in range(3):
        slots.enter("a", f"s{n}", NOW)

    assert not slots.has_room("a", NOW + REMEMBERED_SECONDS)
    assert slots.has_room("a", LATER)


def test_a_tenant_with_a_turn_in_hand_is_there_however_long_it_takes() -> None:
    slots = slots_of("fair", 4)
    slots.see("b", NOW)
    slots.enter("b", "s", NOW)
    slots.see("a", LATER)
    slots.enter("a", "s", LATER)
    slots.enter("a", "t", LATER)

    assert not slots.has_room("a", LATER)


def test_the_last_two_tenants_are_told_apart_whoever_comes_in_between() -> None:
    slots = slots_of("fair", 2)
    for tenant in ("b", "a", "a", "a"):
        slots.see(tenant, NOW)
    slots.enter("a", "s", NOW)

    assert not slots.has_room("a", NOW)


def test_whoever_might_crowd_out_others_looks_for_them_unless_they_are_known() -> None:
    slots = slots_of("fair", 4)
    for n in range(3):
        assert not slots.must_look("a", NOW)
        slots.enter("a", f"s{n}", NOW)

    assert slots.must_look("a", NOW)
    slots.see("b", NOW)
    assert not slots.must_look("a", NOW)


# --- whose a free slot is


def test_a_free_slot_is_of_the_session_that_has_waited_longest() -> None:
    slots = slots_of(1)
    for session in ("at work", "first", "second"):
        slots.enter("a", session, NOW)

    slots.leave("a")

    assert slots.next_waiting("a", NOW) == ("a", "first")


def test_a_slot_that_the_first_can_not_use_is_the_next_ones_unless_somebody_has_it() -> None:
    slots = slots_of(1)
    for session in ("at work", "first", "second", "third"):
        slots.enter("a", session, NOW)

    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "first")
    assert slots.next_waiting("a", NOW) == ("a", "second")
    slots.enter("a", "somebody", NOW)
    assert slots.next_waiting("a", NOW) is None
    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "third")


def test_with_a_share_of_so_many_nobody_waits_for_another_tenants_slot() -> None:
    slots = slots_of(1)
    slots.enter("a", "at work", NOW)
    slots.enter("b", "at work", NOW)
    slots.enter("b", "waits", NOW)

    slots.leave("a")

    assert slots.next_waiting("a", NOW) is None


def test_with_fair_shares_a_free_slot_is_of_the_tenant_with_the_fewest() -> None:
    slots = slots_of("fair", 8)
    flood(slots, "a", "b", "c")
    for _ in range(2):
        slots.leave("c")

    assert slots.next_waiting("a", NOW) == ("c", "s2")


def test_a_session_waits_once_however_often_it_comes() -> None:
    slots = slots_of(1)
    for session in ("at work", "waits", "waits"):
        slots.enter("a", session, NOW)

    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "waits")
    assert slots.next_waiting("a", NOW) is None


def test_no_more_sessions_are_remembered_than_fit() -> None:
    slots = slots_of(1)
    for n in range(MAX_WAITING + 10):
        slots.enter("a", f"s{n}", NOW)

    slots.leave("a")
    told = [slots.next_waiting("a", NOW) for _ in range(MAX_WAITING + 5)]
    assert sum(waiting is not None for waiting in told) == MAX_WAITING


# --- how long a session is put off


def defer(slots: TenantSlots, times: int, now: float = NOW) -> list[float]:
    return [slots.defer_seconds("a", now) for _ in range(times)]


def test_the_first_of_a_line_come_again_soon() -> None:
    slots = slots_of(10)
    flood(slots, "a")

    assert defer(slots, 10) == [LEAST_PUT_OFF_SECONDS] * 10


def test_each_comes_again_when_those_before_it_have_had_the_tenants_slots() -> None:
    slots = slots_of(10)
    flood(slots, "a")

    line = defer(slots, 100)

    assert line[19] == pytest.approx(2 * TURN_SECONDS)
    assert line[99] == pytest.approx(10 * TURN_SECONDS)


def test_nobody_is_put_off_for_longer_than_the_bound() -> None:
    slots = slots_of(10)
    flood(slots, "a")

    assert defer(slots, 50_000)[-1] == MOST_DEFER_SECONDS


def test_a_flood_that_is_over_lengthens_nobodys_time() -> None:
    slots = slots_of(10)
    flood(slots, "a")
    defer(slots, 50_000)

    assert defer(slots, 1, now=NOW + MOST_DEFER_SECONDS) == [LEAST_PUT_OFF_SECONDS]


def test_another_tenants_line_is_its_own() -> None:
    slots = slots_of(10)
    flood(slots, "a", "b")
    defer(slots, 1000)

    assert slots.defer_seconds("b", NOW) == LEAST_PUT_OFF_SECONDS
