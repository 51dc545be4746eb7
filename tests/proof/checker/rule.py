"""What a rule is: one guarantee of docs/reliability.md, and a function that finds what broke it in the ledger."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.proof.checker.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, for one turn or session. The turn's story (`story.stories_of`) is the proof."""

    invariant: str
    """"I1" to "I25", or "LOGS"."""
    claim: str
    """One line: what was seen, and what should have been."""
    turn_id: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The subject of a finding about a session, and about no turn in particular."""

    name: str | None


Finding = tuple[str | Session | None, str]
"""A turn's id, a session, or None for the run as a whole; and the claim."""
Findings = Iterator[Finding]


def about(turn_id: str | None, claims: Iterable[str]) -> Findings:
    return ((turn_id, claim) for claim in claims)


@dataclass(frozen=True, slots=True)
class Rule:
    invariant: str
    find: Callable[[Ledger], Findings]

    def violations(self, ledger: Ledger) -> Iterator[Violation]:
        for subject, claim in self.find(ledger):
            if isinstance(subject, Session):
                yield Violation(self.invariant, claim, None, subject.name)
            else:
                yield Violation(self.invariant, claim, subject, subject and ledger.session_of(subject))


def rule(invariant: str) -> Callable[[Callable[[Ledger], Findings]], Rule]:
    return lambda find: Rule(invariant, find)
