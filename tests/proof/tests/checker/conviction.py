"""How the checker's tests break a correct story, and ask for the conviction."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.scene import Scene

Record = TypeVar("Record")


def answered() -> Scene:
    """A turn that was submitted, run and answered."""
    return Scene().submit().claim().run().settle()


def claims_of(evidence: Evidence, invariant: str, turn_id: str | None = "a") -> list[str]:
    """What is claimed under one invariant about one turn; `None`: about no turn in particular."""
    found = [violation for violation in check(evidence) if violation.invariant == invariant]
    return [violation.claim for violation in found if violation.turn_id == turn_id]


def assert_convicts(evidence: Evidence, invariant: str, words: str, turn_id: str | None = "a") -> None:
    """The evidence is convicted under the invariant, for the turn, in these words."""
    assert any(words in claim for claim in claims_of(evidence, invariant, turn_id)), check(evidence)


def amend(records: list[Record], where: Callable[[Record], bool], **changed: Any) -> None:
    """Changes the one record for which `where` holds: the violation that a test is about."""
    [place] = [place for place, record in enumerate(records) if where(record)]
    kept = {one.name: getattr(records[place], one.name) for one in fields(records[place])}  # type: ignore[arg-type]
    records[place] = type(records[place])(**{**kept, **changed})
