"""Which turns with crashes on their record may run side by side in one process."""

from turnstile.worker.crash_isolation import Quarantine


def test_turns_that_survive_another_crash_run_side_by_side() -> None:
    quarantine = Quarantine(max_crashes=3)

    assert all(quarantine.enter(1) for _ in range(64))


def test_a_turn_one_crash_short_of_its_limit_enters_only_an_empty_quarantine() -> None:
    quarantine = Quarantine(max_crashes=3)
    first = quarantine.enter(1)

    assert quarantine.enter(2) is None
    assert first is not None
    first.leave()
    assert quarantine.enter(2) is not None


def test_a_turn_one_crash_short_of_its_limit_keeps_out_turns_with_a_crash() -> None:
    quarantine = Quarantine(max_crashes=3)
    alone = quarantine.enter(2)

    assert (quarantine.enter(1), quarantine.enter(2)) == (None, None)
    assert alone is not None
    alone.leave()
    assert quarantine.enter(1) is not None


def test_turns_without_a_crash_or_at_their_budget_need_no_place() -> None:
    quarantine = Quarantine(max_crashes=3)
    quarantine.enter(2)

    assert quarantine.enter(0) is not None
    assert quarantine.enter(3) is not None


def test_a_seat_is_given_back_once() -> None:
    quarantine = Quarantine(max_crashes=3)
    first, _ = quarantine.enter(1), quarantine.enter(1)
    assert first is not None

    first.leave()
    first.leave()

    assert quarantine.enter(2) is None
