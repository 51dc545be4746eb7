"""Every rule convicts what breaks it. That correct runs are acquitted is seen in each run of the proof."""

import re

import pytest

from tests.conftest import ROOT
from tests.proof.checker import check
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.verdict import OF_ERASURES, RULES
from tests.proof.planted_bugs.catalogue import BUGS
from tests.proof.tests.checker.cases import (
    clients,
    families,
    memory,
    messages,
    order,
    processes,
    streams,
    turns,
    webhooks,
)
from tests.proof.tests.checker.conviction import Convicts, answered, dead, end, play, taken_over
from tests.proof.tests.checker.scene import Scene

TABLES = (turns, order, messages, processes, clients, streams, webhooks, families, memory)
CONVICTED: list[Convicts] = [case for table in TABLES for case in table.CONVICTED]


@pytest.mark.parametrize("case", CONVICTED, ids=[f"{case.invariant} {case.words}" for case in CONVICTED])
def test_the_checker_convicts(case: Convicts) -> None:
    found = check(end(case.made))

    claims = [one.claim for one in found if (one.invariant, one.turn_id) == (case.invariant, case.turn_id)]
    assert any(case.words in claim for claim in claims), found


@pytest.mark.parametrize("made", [answered(), dead(), taken_over()], ids=["answered", "dead", "taken over"])
def test_the_stories_that_the_cases_change_are_acquitted(made: Scene) -> None:
    assert check(made.rest()) == []


def test_the_message_of_a_session_that_a_limit_has_put_off_may_be_deleted_before_a_settlement() -> None:
    made = play("submit, wire receive, claim, wire delete, settle").log("session.limited")

    assert "I10" not in {one.invariant for one in check(end(made))}


def test_every_rule_convicts_in_some_case() -> None:
    ledgers = [Ledger(end(case.made)) for case in CONVICTED]

    assert [rule.find.__name__ for rule in RULES if not any(any(rule.find(ledger)) for ledger in ledgers)] == []


def test_every_documented_invariant_has_its_rules_and_planted_bugs() -> None:
    documented = set(re.findall(r"^\| (I\d+|LOGS) \|", (ROOT / "docs" / "reliability.md").read_text(), re.MULTILINE))

    assert {rule.invariant for rule in (*RULES, *OF_ERASURES)} == documented
    assert {bug.invariant for bug in BUGS.values()} == documented


def test_a_violation_names_the_session_of_a_lock() -> None:
    [violation] = check(end(messages.touched("DEL", messages.LOCK).made))

    assert violation.session == "s"
