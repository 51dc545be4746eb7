"""The saboteur's edits fit the product of now. `make saboteur` shows that each is convicted."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.proof.saboteur import how_much, what_can_be_read, what_is_forgotten, who_may_call
from tests.proof.saboteur.__main__ import judge, run_tests
from tests.proof.saboteur.catalogue import SABOTAGES
from tests.proof.saboteur.sabotage import Sabotage, UnfitSabotageError


@pytest.mark.parametrize("sabotage", SABOTAGES.values(), ids=SABOTAGES)
def test_each_sabotage_removes_what_stands_in_the_product_once(sabotage: Sabotage, tmp_path: Path) -> None:
    original = ROOT / "turnstile" / sabotage.file
    copy = tmp_path / "turnstile" / sabotage.file
    copy.parent.mkdir(parents=True)
    copy.write_text(original.read_text("utf-8"), "utf-8")

    before = sabotage.do_to(tmp_path)

    changed = copy.read_text("utf-8")
    assert changed != before == original.read_text("utf-8")
    if sabotage.file.endswith(".py"):
        compile(changed, sabotage.file, "exec")
    sabotage.undo_in(tmp_path, before)
    assert copy.read_text("utf-8") == before
    assert (ROOT / "tests" / sabotage.test).is_file()


def test_no_two_sabotages_have_one_name() -> None:
    files = (who_may_call, how_much, what_can_be_read, what_is_forgotten)

    assert len(SABOTAGES) == sum(len(file.SABOTAGES) for file in files)


def tree_with(tmp_path: Path, test: str) -> Path:
    """A product of one line, and its test."""
    for name, text in (("turnstile/sum.py", "TOTAL = 2\n"), ("tests/test_sum.py", test), ("turnstile/__init__.py", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("test", "convicted_by"),
    [
        ("from turnstile.sum import TOTAL\ndef test_it() -> None:\n    assert TOTAL == 2\n", "test_it"),
        ("from turnstile.sum import TOTAL\ndef test_it() -> None:\n    assert TOTAL\n", None),
        ("from turnstile.sum import TOTAL\nassert TOTAL == 2\ndef test_it() -> None:\n    pass\n", None),
    ],
    ids=["convicts", "looks away", "can't be collected"],
)
def test_only_a_test_that_fails_convicts(tmp_path: Path, test: str, convicted_by: str | None) -> None:
    tree = tree_with(tmp_path, test)

    verdict = judge(tree, Sabotage("more", "sum.py", "TOTAL = 2", "TOTAL = 33", "test_sum.py"))

    assert verdict.convicted_by == convicted_by
    assert (tree / "turnstile/sum.py").read_text() == "TOTAL = 2\n"


def test_a_test_that_hangs_is_interrupted(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, "import threading\ndef test_it() -> None:\n    threading.Event().wait()\n")

    assert run_tests(tree, ["test_sum.py"], within_seconds=3.0)[0] is None


def test_a_check_that_is_gone_is_reported(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, "")

    with pytest.raises(UnfitSabotageError, match="0 times 'TOTAL = 7'"):
        Sabotage("more", "sum.py", "TOTAL = 7", "", "test_sum.py").do_to(tree)
