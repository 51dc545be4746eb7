"""A function id leads from an operation of the API or of the queues to its code and its runbook (G33)."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app

ROW = re.compile(r"^\| (F\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
PLACES = {"#/channels/turns": "queue", "#/channels/deadLetters": "DLQ"}


@dataclass(frozen=True, slots=True)
class Function:
    """A row of the tables in docs/event-flow.md. That its code and its runbook exist is checked there (test_documents.py)."""

    between: str
    code: str
    runbook: str


ROWS = ROW.findall((ROOT / "docs/event-flow.md").read_text())
FUNCTIONS = {name: Function(*rest) for name, *rest in ROWS}
QUEUES = yaml.safe_load((ROOT / "docs/asyncapi.yaml").read_text())["operations"]


def api_operations() -> dict[str, Any]:
    """The operations of the API's document, by path and method; health checks belong to no turn."""
    paths = create_app(Settings()).openapi()["paths"]
    return {
        f"{method} {path}": operation
        for path, operations in paths.items()
        if path.startswith("/v1/")
        for method, operation in operations.items()
    }


def test_ids_are_numbered_without_gaps() -> None:
    assert sorted(int(name[1:]) for name, *_ in ROWS) == [*range(1, len(ROWS) + 1)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_code_and_its_runbook(name: str) -> None:
    assert re.fullmatch(r"(`[\w/]+\.py:\w+`(, )?)+", FUNCTIONS[name].code)
    assert re.fullmatch(r"\[[\w ]+\]\(runbooks/[a-z-]+\.md(#[a-z-]+)?\)", FUNCTIONS[name].runbook)


def test_every_operation_of_the_api_names_its_functions_and_no_other_operation_has_them() -> None:
    named = {name for operation in api_operations().values() for name in operation["x-function-ids"]}

    assert named == {
        name for name, one in FUNCTIONS.items() if "API" in one.between or one.between.endswith("→ client")
    }


@pytest.mark.parametrize("operation", QUEUES)
def test_an_operation_of_a_queue_names_the_functions_that_send_to_it_or_receive_from_it(operation: str) -> None:
    place = PLACES[QUEUES[operation]["channel"]["$ref"]]
    way = f"→ {place}" if QUEUES[operation]["action"] == "send" else f"{place} →"

    assert QUEUES[operation]["x-function-ids"] == [
        name for name, one in FUNCTIONS.items() if re.search(rf"{way}(?!\w)", one.between)
    ]
