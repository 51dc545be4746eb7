"""A tenant's share of a worker's slots, and its line (G20)."""

import pytest

from turnstile.worker.slots.tenant_fairness import (
    LEAST_DEFER_SECONDS,
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
    """How many slots each tenant gets if all of them have more sessions than there are slots."""
    got = dict.fromkeys(tenants, 0)
    for n in range(100):
        for tenant in tenants:
            slots.see(tenant, now)
            got[tenant] += slots.enter(tenant, f"s{n}", now)
    return list(got.values())


# --- a fixed share


def test_a_full_tenant_does_not_limit_another_and_may_use_its_slot_again() -> None:
    slots = slots_of(1)
    slots.enter("a", "s", NOW)

    assert slots.enter("b", "s", NOW)
    slots.leave("a")
    assert slots.enter("a", "s", NOW)


def test_without_a_share_there_is_always_room() -> None:
    slots = slots_of("all")

    assert flood(slots, "a", "b") == [100, 100]
    assert not slots.must_look("a", NOW)


# --- fair shares


@pytest.mark.parametrize("count", [1, 64])
def test_a_tenant_that_is_alone_has_all_slots_and_prefetched_turns(count: int) -> None:
    assert flood(slots_of("fair", count), "a") == [100]


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 1), (3, 2), (64, 48)])
def test_a_flood_has_at_most_three_quarters_if_another_tenant_is_seen(count: int, most: int) -> None:
    slots = slots_of("fair", count)
    slots.see("b", NOW)

    assert flood(slots, "a") == [most]


@pytest.mark.parametrize("tenants", ["ab", "abcdefg"])
def test_floods_have_equal_shares_and_leave_a_slot_free(tenants: str) -> None:
    got = flood(slots_of("fair", 64), *tenants)

    assert max(got) - min(got) <= 1
    assert 64 * 3 // 4 <= sum(got) < 64


def test_eight_or_more_tenants_use_all_slots() -> None:
    tenants = "abcdefgh"
    slots = slots_of("fair", 64)
    for n in range(6):
        for tenant in tenants:
            slots.enter(tenant, f"s{n}", NOW)

    for n in range(64 - 6 * len(tenants)):
        assert slots.enter(tenants[n % len(tenants)], f"t{n}", NOW)


def test_a_second_tenant_enters_although_the_first_has_all_slots() -> None:
    slots = slots_of("fair", 4)
    for n in range(4):
        slots.enter("a", f"s{n}", NOW)

    slots.see("b", NOW)

    assert slots.enter("b", "s", NOW)
    assert not slots.enter("a", "one more", NOW)


def test_slots_stay_free_for_a_while_after_another_tenants_last_turn() -> None:
    slots = slots_of("fair", 16)
    slots.see("b", NOW)
    for n in range(12):
        slots.enter("a", f"s{n}", NOW)

    assert not slots.has_room("a", NOW + REMEMBERED_SECONDS)
    assert slots.has_room("a", LATER)


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 1), (16, 15), (64, 63)])
def test_a_tenant_that_is_alone_leaves_a_slot_to_those_that_were_here_long_ago(count: int, most: int) -> None:
    slots = slots_of("fair", count)
    slots.see("b", NOW)

    assert flood(slots, "a", now=LATER) == [most]


def test_a_tenant_that_is_alone_leaves_a_slot_to_tenants_that_have_keys() -> None:
    assert flood(TenantSlots("fair", 64, several=True), "a") == [63]


def test_the_slot_that_stays_free_is_the_next_tenants() -> None:
    slots = TenantSlots("fair", 16, several=True)
    flood(slots, "a")

    slots.see("b", NOW)

    assert slots.enter("b", "s", NOW)


def test_a_tenant_with_a_turn_in_hand_counts_however_long_the_turn_takes() -> None:
    slots = slots_of("fair", 4)
    slots.see("b", NOW)
    slots.enter("b", "s", NOW)
    slots.see("a", LATER)
    slots.enter("a", "s", LATER)
    slots.enter("a", "t", LATER)

    assert not slots.has_room("a", LATER)


def test_a_tenant_that_might_crowd_out_others_looks_for_them() -> None:
    slots = slots_of("fair", 4)
    for n in range(3):
        assert not slots.must_look("a", NOW)
        slots.enter("a", f"s{n}", NOW)

    assert slots.must_look("a", NOW)
    slots.see("b", NOW)
    assert not slots.must_look("a", NOW)


# --- which session gets a free slot


def test_a_slot_that_the_first_can_not_use_goes_to_the_next() -> None:
    slots = slots_of(1)
    for session in ("at work", "first", "second", "third"):
        slots.enter("a", session, NOW)

    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "first")
    assert slots.next_waiting("a", NOW) == ("a", "second")
    slots.enter("a", "another session", NOW)
    assert slots.next_waiting("a", NOW) is None
    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "third")


def test_under_a_fixed_share_no_session_gets_another_tenants_slot() -> None:
    slots = slots_of(1)
    slots.enter("a", "at work", NOW)
    slots.enter("b", "at work", NOW)
    slots.enter("b", "waits", NOW)

    slots.leave("a")

    assert slots.next_waiting("a", NOW) is None


def test_under_fair_shares_the_tenant_with_the_fewest_slots_gets_the_free_one() -> None:
    slots = slots_of("fair", 8)
    flood(slots, "a", "b", "c")
    for _ in range(2):
        slots.leave("c")

    assert slots.next_waiting("a", NOW) == ("c", "s2")


def test_a_session_waits_only_once() -> None:
    slots = slots_of(1)
    for session in ("at work", "waits", "waits"):
        slots.enter("a", session, NOW)

    slots.leave("a")
    assert slots.next_waiting("a", NOW) == ("a", "waits")
    assert slots.next_waiting("a", NOW) is None


def test_the_number_of_remembered_sessions_is_limited() -> None:
    slots = slots_of(1)
    for n in range(MAX_WAITING + 10):
        slots.enter("a", f"s{n}", NOW)

    slots.leave("a")
    found = [slots.next_waiting("a", NOW) for _ in range(MAX_WAITING + 5)]
    assert sum(waiting is not None for waiting in found) == MAX_WAITING


# --- how long a session is deferred


@pytest.mark.parametrize(
    ("waiting", "seconds"), [(0, LEAST_DEFER_SECONDS), (10, 11 * TURN_SECONDS / 5), (1000, MOST_DEFER_SECONDS)]
)
def test_a_deferral_grows_with_the_tenants_line_up_to_a_limit(waiting: int, seconds: float) -> None:
    slots = slots_of(5)
    for n in range(5 + waiting):
        slots.enter("a", f"s{n}", NOW)

    assert slots.defer_seconds("a") == seconds


def test_a_flood_that_is_over_lengthens_no_deferral() -> None:
    slots = slots_of(5)
    flood(slots, "a")
    for _ in range(100):
        slots.leave("a")
        slots.next_waiting("a", NOW)
        slots.enter("a", "again", NOW)

    assert slots.defer_seconds("a") == LEAST_DEFER_SECONDS


def test_a_session_that_got_a_slot_lengthens_no_deferral() -> None:
    slots = slots_of(1)
    slots.enter("a", "first", NOW)
    for n in range(20):
        slots.enter("a", f"s{n}", NOW)
    for n in range(20):
        slots.leave("a")
        slots.enter("a", f"s{n}", NOW)

    assert slots.defer_seconds("a") == LEAST_DEFER_SECONDS
