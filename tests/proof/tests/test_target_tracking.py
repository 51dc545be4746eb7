"""The stand-in of target tracking: it grows soon, shrinks late, and goes to the number that brings the metric to its target."""

from tests.proof.chaos.target_tracking import IN_AFTER, OUT_AFTER, Policy, Tracking, track

POLICY = Policy(per_task=10, minimum=1, maximum=6)


def after(points: int, work: int, *, desired: int, policy: Policy = POLICY) -> int:
    """How many tasks are desired after so many points of the same work."""
    standing = Tracking(desired=desired)
    for _ in range(points):
        standing = track(policy, standing, work, standing.desired)
    return standing.desired


def test_it_grows_after_three_points_above_the_target() -> None:
    assert after(OUT_AFTER - 1, 35, desired=1) == 1
    assert after(OUT_AFTER, 35, desired=1) == 4


def test_it_shrinks_after_fifteen_points_well_below_the_target() -> None:
    assert after(IN_AFTER - 1, 12, desired=4) == 4
    assert after(IN_AFTER, 12, desired=4) == 2


def test_a_point_in_between_begins_the_count_anew() -> None:
    standing = Tracking(desired=1)
    for work in (35, 35, 9, 35, 35):
        standing = track(POLICY, standing, work, 1)

    assert standing.desired == 1


def test_it_stays_within_its_bounds() -> None:
    assert after(OUT_AFTER, 1000, desired=1) == POLICY.maximum
    assert after(IN_AFTER, 0, desired=4) == POLICY.minimum


def test_between_two_changes_lies_a_cooldown() -> None:
    slow = Policy(per_task=10, minimum=1, maximum=6, out_cooldown=5)

    assert after(4, 35, desired=1, policy=slow) == 1
    assert after(5, 35, desired=1, policy=slow) == 4
