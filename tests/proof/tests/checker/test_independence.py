"""The checker knows the product by its evidence only: with the product's own code it would share its mistakes."""

import ast
import sys
from pathlib import Path

from tests.conftest import ROOT

CHECKER = ROOT / "tests" / "proof" / "checker"


def imported_by(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(("." * node.level) + (node.module or ""))
    return found


def test_no_file_of_the_checker_imports_anything_but_itself_and_the_standard_library() -> None:
    files = sorted(CHECKER.glob("**/*.py"))

    assert files
    foreign = {
        (path.name, name)
        for path in files
        for name in imported_by(path)
        if not name.startswith("tests.proof.checker") and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()
