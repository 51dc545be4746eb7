"""How a command names this program and the home of the stack."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dev.shells import path_without_the_program
from turnstile.dev.home import program_name


@pytest.mark.parametrize("finds_it", [True, False])
def test_a_line_to_copy_calls_the_program_as_the_shell_finds_it(
    finds_it: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(path_without_the_program()))
    if finds_it:
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    shown = subprocess.run(["sh", "-c", f"{program_name()} --version"], capture_output=True, text=True, check=True)

    assert re.fullmatch(r"\d+\.\d+\.\d+\n", shown.stdout)
    assert (program_name() == "turnstile") is finds_it
