"""The list of crash points is that of the code."""

import pytest

from tests.conftest import ROOT
from tests.proof.crashpoints.passing import FAULTS, FaultKind
from tests.proof.crashpoints.points import read
from tests.proof.crashpoints.stories import STORIES
from tests.proof.crashpoints.survey import MODULES, survey, wrap


def test_every_await_of_the_surveyed_modules_is_in_the_list() -> None:
    listing = read()

    assert {point.name for point in listing.points} | listing.left_out.keys() == set(survey())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_with_its_awaits_wrapped_compiles(module: str) -> None:
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")

    compile(wrap(source, module)[0], module, "exec", dont_inherit=True)


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
    files = list((ROOT / "turnstile").rglob("*.py"))

    assert len(files) > 100
    assert [str(path) for path in files if "crashpoint" in path.read_text("utf-8").lower()] == []
