"""A tenant's share of a worker's slots (G20)."""

from worker.tenant_slots import MAX_WAITING, TenantSlots


def test_a_tenant_takes_so_many_slots_and_no_more() -> None:
    slots = TenantSlots(2)

    assert [slots.enter("a", f"s{n}") for n in range(3)] == [True, True, False]
    assert not slots.has_room("a")


def test_another_tenant_does_not_notice() -> None:
    slots = TenantSlots(1)
    slots.enter("a", "s")

    assert slots.enter("b", "s")


def test_without_a_cap_there_is_always_room() -> None:
    slots = TenantSlots(None)

    assert all(slots.enter("a", f"s{n}") for n in range(1000))
    assert slots.has_room("a")


def test_whoever_leaves_is_told_who_has_waited_longest() -> None:
    slots = TenantSlots(1)
    for session in ("at work", "first", "second"):
        slots.enter("a", session)

    assert slots.leave("a") == "first"


def test_a_slot_that_the_first_can_not_use_is_the_next_ones_unless_somebody_has_it() -> None:
    slots = TenantSlots(1)
    for session in ("at work", "first", "second", "third"):
        slots.enter("a", session)

    assert slots.leave("a") == "first"
    assert slots.next_waiting("a") == "second"
    slots.enter("a", "somebody")
    assert slots.next_waiting("a") is None
    assert slots.leave("a") == "third"


def test_nobody_waits_for_another_tenants_slot() -> None:
    slots = TenantSlots(1)
    slots.enter("a", "at work")
    slots.enter("b", "at work")
    slots.enter("b", "waits")

    assert slots.leave("a") is None


def test_a_session_waits_once_however_often_it_comes() -> None:
    slots = TenantSlots(1)
    for session in ("at work", "waits", "waits"):
        slots.enter("a", session)

    assert slots.leave("a") == "waits"
    slots.enter("a", "at work")
    assert slots.leave("a") is None


def test_a_slot_that_was_given_back_can_be_taken() -> None:
    slots = TenantSlots(1)
    slots.enter("a", "s")
    slots.leave("a")

    assert slots.enter("a", "s")


def test_no_more_sessions_are_remembered_than_fit() -> None:
    slots = TenantSlots(1)
    for n in range(MAX_WAITING + 10):
        slots.enter("a", f"s{n}")

    told = []
    for _ in range(MAX_WAITING + 5):
        told.append(slots.leave("a"))
        slots.enter("a", "at work")
    assert sum(session is not None for session in told) == MAX_WAITING
