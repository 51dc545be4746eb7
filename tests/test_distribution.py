"""The name that pip knows Turnstile by. The index has a `turnstile` of somebody else: nobody may be sent there."""

import importlib.metadata
import re
import subprocess

import pytest

from tests.conftest import ROOT
from turnstile import distribution
from turnstile.dev.stack.lifecycle import package_folder
from turnstile.dev.stack.processes import LocalStackError

FOREIGN = re.compile(r"\bturnstile\[[a-z]|\binstall\b[^\n]*?[ \t'\"]turnstile(?=[\s'\"=<>~@]|$)", re.MULTILINE)
"""The name in the form of a requirement, or after the word `install`."""


@pytest.mark.parametrize(
    "text", ["pip install 'turnstile[local]'", "install turnstile[telemetry]", "pip install turnstile"]
)
def test_what_is_looked_for_would_be_found(text: str) -> None:
    assert FOREIGN.search(text)


@pytest.mark.parametrize(
    "text",
    ["pip install 'turnstile-sqs[local]'", "pip install turnstile_sqs-0.1.0.whl", "pip install it\nturnstile new"],
)
def test_our_own_name_is_not_found(text: str) -> None:
    assert not FOREIGN.search(text)


def test_no_text_of_ours_names_the_package_of_somebody_else() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = {
        name: (ROOT / name).read_text("utf-8", errors="replace")
        for name in listed.split("\0")
        if name and (ROOT / name).is_file() and name != "tests/test_distribution.py"
    }

    assert len(texts) > 1000
    assert {name: found.group() for name, text in texts.items() if (found := FOREIGN.search(text))} == {}


def test_the_program_is_installed_under_its_name() -> None:
    assert importlib.metadata.distribution(distribution.NAME).entry_points.select(name="turnstile")


def test_a_missing_extra_is_named_as_pip_knows_it() -> None:
    with pytest.raises(LocalStackError, match=r"pip install 'turnstile-sqs\[local\]'"):
        package_folder("package_that_nobody_has")
