"""What the npm package says of itself, as far as it can be checked without Node.js. `make client-js` runs its own tests."""

import hashlib
import json
import re
from typing import Any

import pytest

from tests.conftest import ROOT
from turnstile.dev.openapi_document import openapi_document

PACKAGE = ROOT / "clients" / "typescript"


@pytest.fixture(scope="module")
def locked() -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads((PACKAGE / "package-lock.json").read_text())["packages"]
    return packages


def test_the_types_are_those_of_the_apis_document() -> None:
    [said] = re.findall(r"^// sha256 (\w+)$", (PACKAGE / "src" / "openapi.ts").read_text(), re.MULTILINE)

    assert said == hashlib.sha256(openapi_document().encode()).hexdigest(), "run: make client-js-types"


def test_the_lock_names_no_registry_and_has_a_digest_for_each_package(locked: dict[str, dict[str, Any]]) -> None:
    others = {name: entry for name, entry in locked.items() if name}

    assert [name for name, entry in others.items() if "resolved" in entry] == []
    assert [name for name, entry in others.items() if "integrity" not in entry] == []


def test_nothing_of_the_package_runs_when_it_is_installed() -> None:
    scripts = json.loads((PACKAGE / "package.json").read_text())["scripts"]

    assert {"preinstall", "install", "postinstall", "prepare"} & {*scripts} == set()
