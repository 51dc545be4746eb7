"""Import directions: the contracts stand in pyproject.toml, under `[tool.importlinter]`."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_the_import_contracts_are_kept() -> None:
    program = Path(sys.executable).with_name("lint-imports")

    checked = subprocess.run([program, "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
