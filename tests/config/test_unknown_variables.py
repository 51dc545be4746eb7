"""Variables that look like settings and are none: named in one line, with the setting that was probably meant."""

import re
import subprocess

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tests.conftest import ROOT
from turnstile.config.unknown_variables import describe, describe_unknown_variables, setting_variables
from turnstile.ops.command_line import app, option_variables

KNOWN = setting_variables()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TURNSTILE_CONCURENCY", "TURNSTILE_CONCURRENCY"),
        ("TURNSTILE_LEASE_SECOND", "TURNSTILE_LEASE_SECONDS"),
        ("TURNSTILE_WEBHOOKS_SECRET", "TURNSTILE_WEBHOOK_SECRETS"),
        ("TURNSTILE_DATABASEURL", "TURNSTILE_DATABASE_URL"),
        ("turnstile_concurency", "TURNSTILE_CONCURRENCY"),
    ],
)
def test_a_typo_is_named_with_the_setting_that_was_meant(name: str, meant: str) -> None:
    assert describe([name], KNOWN) == f"{name} (did you mean {meant}?) is no setting and has no effect"


def test_what_is_like_nothing_is_named_without_a_guess() -> None:
    assert describe(["TURNSTILE_COLOUR", "PATH"], KNOWN) == "TURNSTILE_COLOUR is no setting and has no effect"


def test_many_are_one_line_too() -> None:
    names = [f"TURNSTILE_PORT_8080_TCP_{letter}" for letter in "ABCDEFG"]

    said = describe(names, KNOWN)

    assert said is not None
    assert said.endswith("TURNSTILE_PORT_8080_TCP_E, 2 more are no settings and have no effect")


@pytest.mark.parametrize(
    "name", ["TURNSTILE_CONCURRENCY", "turnstile_concurrency", "TURNSTILE_DATABASE_URL", "DATABASE_URI"]
)
def test_what_is_read_is_not_named_however_it_is_spelt(name: str) -> None:
    assert describe([name], KNOWN) is None


def test_every_variable_that_is_spoken_of_here_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [ROOT / name for name in files if not name.startswith(("tests/config/", "tests/ops/"))]
    texts = [path.read_text(errors="replace") for path in paths if path.is_file()]
    names = {name for text in texts for name in re.findall(r"\bTURNSTILE_[A-Z_]*[A-Z]\b(?!_)", text)}
    assert len(names) > len(KNOWN) / 2
    for name in names - MADE_UP:
        monkeypatch.setenv(name, "")

    assert describe_unknown_variables({*option_variables(root)}) is None


MADE_UP = {"TURNSTILE_SERVICE_HOST"}
"""Named as what is unknown."""
