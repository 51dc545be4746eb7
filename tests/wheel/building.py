"""Builds the wheel from a copy of the sources, so that neither the remains of an earlier build nor another build meet it."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "docs", "turnstile")


def build(folder: Path) -> Path:
    """The wheel, in a new folder of `folder`."""
    sources, out = folder / "sources", folder / "dist"
    sources.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, sources)
    program = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    built = subprocess.run(
        [sys.executable, "-c", program, out], cwd=sources, capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = out.glob("*.whl")
    return wheel
