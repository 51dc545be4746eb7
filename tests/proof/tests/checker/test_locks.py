"""I14: whoever touches a lock that another holds is convicted, and a lock that is left."""

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import RedisKey
from tests.proof.tests.checker.conviction import answered, assert_convicts
from tests.proof.tests.checker.scene import Scene, lock_of


def test_i14_a_lock_that_is_left() -> None:
    evidence = answered().rest()
    evidence.keys.append(RedisKey(key=lock_of("s"), value="w1", ttl_ms=-1))

    assert_convicts(evidence, "I14", "is left at rest", None)


def held_by_w1() -> Scene:
    return Scene().script("w1", ("SET", lock_of("s"), "w1", "NX", "PX", "1500"))


@pytest.mark.parametrize(
    "command",
    [
        ("DEL", lock_of("s")),
        ("PEXPIRE", lock_of("s"), "1500"),
        ("SET", lock_of("s"), "w2", "PX", "1500"),
    ],
)
def test_i14_a_script_that_touches_the_lock_of_another(command: tuple[str, ...]) -> None:
    evidence = held_by_w1().script("w2", command).rest()

    assert_convicts(evidence, "I14", "while w1 held it", None)


def test_i14_a_lock_that_is_deleted_without_looking() -> None:
    assert_convicts(held_by_w1().redis("10.0.0.1:5", "DEL", lock_of("s")).rest(), "I14", "DEL of", None)


def test_i14_an_extended_lock_is_still_held() -> None:
    scene = held_by_w1().wait(1.0).script("w1", ("GET", lock_of("s")), ("PEXPIRE", lock_of("s"), "1500")).wait(1.0)

    assert_convicts(scene.script("w2", ("DEL", lock_of("s"))).rest(), "I14", "by w2, while w1 held it", None)


def test_i14_names_the_session() -> None:
    [violation] = check(held_by_w1().script("w2", ("DEL", lock_of("s"))).rest())

    assert (violation.invariant, violation.session) == ("I14", "s")


def test_i14_of_many_keys_each_counts() -> None:
    scene = held_by_w1().redis("10.0.0.1:5", "DEL", f"{lock_of('r')}:waiting", lock_of("r"), lock_of("s"))

    assert_convicts(scene.rest(), "I14", f"DEL of {lock_of('s')}", None)


def test_i14_locks_that_the_nemesis_unlinked_are_anybodys() -> None:
    scene = held_by_w1().redis("10.0.0.9:1", "UNLINK", lock_of("r"), lock_of("s"))
    scene.script("w2", ("SET", lock_of("s"), "w2", "NX", "PX", "1500"))

    assert check(scene.script("w2", ("GET", lock_of("s")), ("DEL", lock_of("s"))).rest()) == []
