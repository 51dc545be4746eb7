"""Tables of cases for the checker: the evidence of a run, and what the checker must say of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.scene import Scene

INSERTED, CLAIMED, ENDED = range(3)
"""The first changes of a turn in the audit: its insert, its first claim, and how that ended."""

Build = Callable[[], Evidence | Scene]
"""Makes the evidence; a scene is brought to its end first."""


@dataclass(frozen=True, slots=True)
class Convicts:
    """The evidence breaks the invariant, and the checker says so of the turn, in these words."""

    invariant: str
    words: str
    build: Build
    turn_id: str | None = "a"
    """None: the claim is about no turn in particular."""

    def check(self) -> None:
        """Asks for the conviction."""
        assert_convicts(end(self.build()), self.invariant, self.words, self.turn_id)


def each(cases: Mapping[str, Build] | Sequence[Convicts]) -> pytest.MarkDecorator:
    """One test for each case of a table, under its name or what is claimed."""
    if isinstance(cases, Mapping):
        return pytest.mark.parametrize("case", cases.values(), ids=cases)
    return pytest.mark.parametrize("case", cases, ids=[f"{case.invariant} {case.words}" for case in cases])


def end(made: Evidence | Scene) -> Evidence:
    """All that a scene has left behind."""
    return made.rest() if isinstance(made, Scene) else made


def assert_acquits(build: Build) -> None:
    """The checker finds nothing wrong."""
    assert check(end(build())) == []


def answered() -> Scene:
    """A turn that was submitted, run and answered."""
    return Scene().submit().claim().run().settle()


def dead() -> Scene:
    """A turn that failed and has its dead letter."""
    return Scene().submit().claim().settle(outcome="failed").dead_letter()


def taken_over() -> Scene:
    """A turn whose first worker was lost, and that was answered by a second one."""
    return Scene().submit().claim().take_over().settle()


def claims_of(evidence: Evidence, invariant: str, turn_id: str | None = "a") -> list[str]:
    """What is claimed under one invariant about one turn."""
    found = [violation for violation in check(evidence) if violation.invariant == invariant]
    return [violation.claim for violation in found if violation.turn_id == turn_id]


def assert_convicts(evidence: Evidence, invariant: str, words: str, turn_id: str | None = "a") -> None:
    """The evidence is convicted under the invariant, for the turn, in these words."""
    assert any(words in claim for claim in claims_of(evidence, invariant, turn_id)), check(evidence)


Where = Callable[[Any], bool] | int | None
"""Which record of a kind: the one for which it holds, the one at this place, or the only one."""


def amended(made: Evidence | Scene, kind: str, where: Where = None, **changed: Any) -> Evidence:
    """The evidence with one record changed."""
    evidence = end(made)
    records = getattr(evidence, kind)
    if not isinstance(where, int):
        [where] = [place for place, record in enumerate(records) if where is None or where(record)]
    records[where] = replace(records[where], **changed)
    return evidence


def more(made: Evidence | Scene, kind: str, *, like: int = -1, **changed: Any) -> Evidence:
    """The evidence with one more record, made from another one of its kind."""
    evidence = end(made)
    records = getattr(evidence, kind)
    records.append(replace(records[like], **changed))
    return evidence


def without(made: Evidence | Scene, kind: str, place: int | None = None) -> Evidence:
    """The evidence without one record of a kind, or without all of them."""
    evidence = end(made)
    del getattr(evidence, kind)[slice(None) if place is None else place]
    return evidence


def plus(made: Evidence | Scene, **records: Any) -> Evidence:
    """The evidence with one more record of each kind that is named."""
    evidence = end(made)
    for kind, record in records.items():
        getattr(evidence, kind).append(record)
    return evidence
