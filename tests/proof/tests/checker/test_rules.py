"""Every rule convicts what breaks it, and acquits correct runs, whatever happened in them."""

import re

import pytest

from tests.conftest import ROOT
from tests.proof.checker import check
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.verdict import RULES
from tests.proof.planted_bugs.catalogue import BUGS
from tests.proof.tests.checker.cases import (
    clients,
    correct_runs,
    families,
    memory,
    messages,
    order,
    processes,
    streams,
    turns,
    webhooks,
)
from tests.proof.tests.checker.conviction import Convicts, Made, end

TABLES = (turns, order, messages, processes, clients, streams, webhooks, families, memory)
CONVICTED: list[Convicts] = [case for table in TABLES for case in table.CONVICTED]
ACQUITTED: dict[str, Made] = {
    name: made for table in (*TABLES, correct_runs) for name, made in getattr(table, "ACQUITTED", {}).items()
}


@pytest.mark.parametrize("case", CONVICTED, ids=[f"{case.invariant} {case.words}" for case in CONVICTED])
def test_the_checker_convicts(case: Convicts) -> None:
    found = check(end(case.made))

    claims = [one.claim for one in found if (one.invariant, one.turn_id) == (case.invariant, case.turn_id)]
    assert any(case.words in claim for claim in claims), found


@pytest.mark.parametrize("made", ACQUITTED.values(), ids=ACQUITTED)
def test_the_checker_acquits(made: Made) -> None:
    assert check(end(made)) == []


def test_every_rule_convicts_in_some_case() -> None:
    ledgers = [Ledger(end(case.made)) for case in CONVICTED]

    assert [rule.find.__name__ for rule in RULES if not any(any(rule.find(ledger)) for ledger in ledgers)] == []


def test_every_documented_invariant_has_its_rules_and_planted_bugs() -> None:
    documented = set(re.findall(r"^\| (I\d+|LOGS) \|", (ROOT / "docs" / "reliability.md").read_text(), re.MULTILINE))

    assert {rule.invariant for rule in RULES} == documented
    assert {bug.invariant for bug in BUGS.values()} == documented


def test_a_violation_names_the_session_of_a_lock() -> None:
    [violation] = check(messages.touched("DEL", messages.LOCK).made)

    assert violation.session == "s"
