"""The verdict: every rule is applied once, to one ledger."""

from tests.proof.checker import (
    accounts,
    attempts,
    clients,
    compensations,
    conversations,
    durable_memory,
    erasures,
    families,
    fences,
    locks,
    logs,
    messages,
    order,
    progress,
    recorded,
    shares,
    streams,
    transitions,
    vanishing_memory,
    waits,
    waste,
    webhooks,
)
from tests.proof.checker.evidence import Evidence
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Rule, Violation

_FILES = (
    accounts, logs, families, recorded, compensations, fences, order, attempts, messages, clients, waits, locks,
    progress, waste, streams, webhooks, transitions, durable_memory, vanishing_memory, conversations, shares,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(one for file in _FILES for one in vars(file).values() if isinstance(one, Rule))
"""In the order in which their violations are reported."""


OF_ERASURES = tuple(one for one in vars(erasures).values() if isinstance(one, Rule))
"""Of the whole evidence. The others judge the sessions that nobody has erased."""


def check(evidence: Evidence) -> list[Violation]:
    """All violations. Pure: the same evidence gives the same answer."""
    whole, ledger = Ledger(evidence), Ledger(erasures.without_erased(evidence))
    found = [violation for rule in RULES for violation in rule.violations(ledger)]
    return found + [violation for rule in OF_ERASURES for violation in rule.violations(whole)]
