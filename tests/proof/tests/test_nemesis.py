"""What the nemesis chooses from."""

import pytest

from tests.proof.chaos.nemesis import KINDS, choose


def test_there_are_more_than_twenty_five_kinds_and_each_has_a_name_of_its_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) > 25


def test_kinds_are_chosen_by_name_or_prefix() -> None:
    names = [kind.name for kind in choose(["worker-sig", "redis-flushed"], shared=False)]

    assert names == ["worker-sigkill", "worker-sigterm", "worker-sigterm-twice", "redis-flushed"]


def test_a_calm_run_has_none() -> None:
    assert choose(["none"], shared=False) == []


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of fault is called 'meteor'"):
        choose(["meteor"], shared=False)


def test_a_shared_stack_is_spared_the_faults_of_its_servers() -> None:
    names = {kind.name for kind in choose([], shared=True)}

    assert "postgres-restarted" not in names
    assert "worker-sigkill" in names
