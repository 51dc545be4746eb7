"""The list of crash points is that of the code, and names are made as they are documented."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.proof.crashpoints.passing import FAULTS, FaultKind
from tests.proof.crashpoints.points import read
from tests.proof.crashpoints.stories import STORIES
from tests.proof.crashpoints.survey import survey, wrap


def names_of(source: str) -> list[str]:
    return wrap(source, "m")[1]


def test_every_await_of_the_surveyed_modules_is_in_the_list() -> None:
    listing = read()

    assert {point.name for point in listing.points} | listing.left_out.keys() == set(survey())


def test_no_await_is_both_a_point_and_left_out() -> None:
    listing = read()

    assert not {point.name for point in listing.points} & listing.left_out.keys()


def test_what_a_point_is_the_same_as_is_a_point() -> None:
    listing = read()
    others = {why.removeprefix("the same as ") for why in listing.left_out.values() if why.startswith("the same as ")}

    assert {name for name in others if ": " in name} <= {point.name for point in listing.points}


def test_every_story_leads_to_points_and_every_point_has_its_story() -> None:
    assert {point.story for point in read().points} == STORIES.keys()


def test_a_point_that_another_must_precede_names_an_await_of_the_code() -> None:
    assert {point.after for point in read().points if point.after} <= set(survey())


def test_a_response_is_lost_only_where_a_server_responds() -> None:
    faults = {point.answered_by: set(point.faults) for point in read().points}

    assert faults["-"] == set(FAULTS) - {FaultKind.LOST}
    assert all(faults[server] == set(FAULTS) for server in ("postgres", "redis", "sqs"))


def test_the_product_does_not_mention_crash_points() -> None:
    folders = ("turnstile", "worker", "producer", "relay", "ops")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]

    assert len(files) > 100
    assert [str(path) for path in files if "crashpoint" in path.read_text("utf-8").lower()] == []


def test_a_malformed_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "points.txt").write_text("## claim\nm.f: g\n")

    with pytest.raises(ValueError, match=r"m\.f: g"):
        read(tmp_path / "points.txt")


# --- names


def test_a_point_is_named_after_module_function_and_what_is_awaited() -> None:
    source = """
class C:
    async def f(self):
        await self.a.b(1)
        x = await future
"""

    assert names_of(source) == ["m.C.f: b", "m.C.f: future"]


def test_a_repeated_name_is_numbered_within_its_function() -> None:
    source = """
async def f():
    await g(1)
    await g(2)
async def h():
    await g(3)
    await i()
"""

    assert names_of(source) == ["m.f: g", "m.f: g#2", "m.h: g", "m.h: i"]


def test_async_with_is_two_points_and_async_for_is_one() -> None:
    source = """
async def f():
    async with a.b() as c:
        async for d in c.e():
            [await x.y() for _ in d]
"""

    assert names_of(source) == ["m.f: b enter", "m.f: b exit", "m.f: e next", "m.f: y"]


def test_a_function_that_only_awaits_another_is_no_point_of_its_own() -> None:
    source = """
async def f(x):
    "Documented."
    return await g(x)
"""

    assert names_of(source) == []
