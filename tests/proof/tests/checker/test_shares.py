"""I22: a tenant that had more of a worker's slots than its cap is convicted. I23: a worker that ran more handlers than it has
slots for is.
"""

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import assert_convicts
from tests.proof.tests.checker.scene import Scene


def two_at_once() -> Scene:
    return Scene().submit("a", session="s").submit("b", session="u").claim("a").claim("b")


def shares(evidence: Evidence) -> list[str]:
    return [violation.claim for violation in check(evidence) if violation.invariant in ("I22", "I23")]


def test_two_of_a_tenant_at_once_where_one_may() -> None:
    evidence = two_at_once().rest(tenant_slots=1)

    assert_convicts(evidence, "I22", "ran as number 2 of tenant t in process 7, where 1 may", turn_id="b")


def test_as_many_as_may() -> None:
    assert shares(two_at_once().rest(tenant_slots=2)) == []


def test_one_after_the_other() -> None:
    scene = Scene().submit("a", session="s").submit("b", session="u")

    evidence = scene.claim("a").run("a").settle("a").claim("b").run("b").settle("b").rest(tenant_slots=1)

    assert shares(evidence) == []


def test_without_a_cap_nobody_counts() -> None:
    assert shares(two_at_once().rest()) == []


def test_more_at_once_than_the_worker_has_slots() -> None:
    evidence = two_at_once().rest(slots=1)

    assert_convicts(evidence, "I23", "ran as number 2 in process 7, which has 1 slots", turn_id="b")


def test_as_many_at_once_as_the_worker_has_slots() -> None:
    assert shares(two_at_once().rest(slots=2)) == []
