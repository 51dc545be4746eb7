"""Variables that look like settings and are none are named in one line."""

import re
import subprocess

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tests.conftest import ROOT
from turnstile.config.settings import Settings
from turnstile.config.unknown_variables import describe_unknown_variables
from turnstile.ops.command_list import app, option_variables


def test_unknown_variables_are_named_and_settings_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("turnstile_concurency", "TURNSTILE_COLOUR", "turnstile_concurrency", "TURNSTILE_DATABASE_URL"):
        monkeypatch.setenv(name, "")

    line = describe_unknown_variables()

    assert line == (
        "not settings, so without effect: TURNSTILE_COLOUR, turnstile_concurency (for TURNSTILE_CONCURRENCY?)"
    )


def test_every_variable_that_this_repository_names_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [ROOT / name for name in files if not name.startswith(("tests/config/", "tests/ops/"))]
    texts = [path.read_text(errors="replace") for path in paths if path.is_file()]
    names = {name for text in texts for name in re.findall(r"\bTURNSTILE_[A-Z_]*[A-Z]\b(?!_)", text)}
    assert len(names) > len(Settings.model_fields) / 2
    for name in names - MADE_UP:
        monkeypatch.setenv(name, "")

    assert describe_unknown_variables({*option_variables(root)}) is None


MADE_UP = {"TURNSTILE_SERVICE_HOST"}
"""Named as examples of unknown variables."""
