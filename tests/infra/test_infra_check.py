"""`make infra-check` where it can't be made: one line that says what is missing, and a failure.

The checks themselves need Terraform.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.infra.__main__ import LEFT_OUT
from tests.infra.policies import Grant, grants_of
from tests.infra.terraform import MIRROR_VARIABLE

NO_PROVIDER = """#!/bin/sh
echo 'Error: Failed to query available provider packages' >&2
exit 1
"""


def check(step: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One step, with only the programs of one folder."""
    return subprocess.run(
        [sys.executable, "-m", "tests.infra", step],
        env={**os.environ, "PATH": str(path), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_without_terraform_it_says_so_in_one_line_and_fails(tmp_path: Path) -> None:
    done = check("fmt", tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "infra-check: terraform is not on the PATH; it is needed from version 1.9 on\n"


def test_without_the_provider_it_says_so_in_one_line_and_fails(tmp_path: Path) -> None:
    program = tmp_path / "terraform"
    program.write_text(NO_PROVIDER)
    program.chmod(0o755)

    done = check("validate", tmp_path, **{MIRROR_VARIABLE: str(tmp_path)})

    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("infra-check: the provider hashicorp/aws 5.100 is neither in a mirror")


def test_a_policy_is_listed_grant_by_grant() -> None:
    statement = {"Effect": "Allow", "Action": ["sqs:SendMessage", "sqs:DeleteMessage"], "Resource": ["arn:a"]}

    assert list(grants_of({"Statement": [statement]})) == [
        Grant("sqs:SendMessage", "arn:a"),
        Grant("sqs:DeleteMessage", "arn:a"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "Action": ["sqs:*"], "Resource": ["arn:a"]},
        {"Effect": "Allow", "NotAction": ["sqs:SendMessage"], "Resource": ["arn:a"]},
        {"Effect": "Allow", "Action": ["sqs:SendMessage"], "NotResource": ["arn:a"]},
    ],
)
def test_a_policy_that_allows_more_than_it_names_cannot_be_listed(statement: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"allow|listed"):
        list(grants_of({"Statement": [statement]}))


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_still_there(name: str) -> None:
    """pytest says nothing of a name to leave out that no test has."""
    file, _, test = name.partition("::")

    assert f"def {test}(" in (ROOT / file).read_text() if test else (ROOT / file).is_file()
