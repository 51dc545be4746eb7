"""Which servers of this machine's packages the tests can run on."""

from pathlib import Path

import pytest

from tests.support.stacks.packaged import find_packaged, oldest_and_newest


def install(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for program in ("postgres", "initdb"):
            (root / folder / program).touch()


def test_servers_of_several_systems_are_found_by_their_version(tmp_path: Path) -> None:
    install(tmp_path, "usr/lib/postgresql/17/bin", "usr/pgsql-16/bin", "opt/homebrew/opt/postgresql@15/bin")

    assert list(find_packaged(tmp_path).items()) == [
        (15, tmp_path / "opt/homebrew/opt/postgresql@15/bin"),
        (16, tmp_path / "usr/pgsql-16/bin"),
        (17, tmp_path / "usr/lib/postgresql/17/bin"),
    ]


def test_what_is_too_old_or_only_a_client_is_left_out(tmp_path: Path) -> None:
    install(tmp_path, "usr/lib/postgresql/14/bin")
    (tmp_path / "usr/lib/postgresql/16/bin").mkdir(parents=True)

    assert find_packaged(tmp_path) == {}


@pytest.mark.parametrize(
    ("versions", "ends"),
    [
        ([], ["embedded"]),
        ([15], ["15", "embedded"]),
        ([15, 16, 17], ["15", "embedded"]),
        ([18], ["embedded"]),
        ([15, 19], ["15", "19"]),
        ([19], ["embedded", "19"]),
    ],
)
def test_the_embedded_server_is_one_of_them(versions: list[int], ends: list[str]) -> None:
    assert oldest_and_newest(dict.fromkeys(versions, Path())) == ends
