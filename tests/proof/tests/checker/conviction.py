"""Tables of cases for the checker: the evidence of a run, and what the checker must say of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.scene import Scene

INSERTED, CLAIMED, ENDED = range(3)
"""The first changes of a turn in the audit: its insert, its first claim, and how that ended."""

Made = Evidence | Scene
"""A scene is brought to its end first."""


class Convicts(NamedTuple):
    """The evidence breaks the invariant, and the checker says so of the turn, in these words."""

    invariant: str
    words: str
    made: Made
    turn_id: str | None = "a"
    """None: the claim is about no turn in particular."""


def end(made: Made) -> Evidence:
    """All that a scene has left behind."""
    return made.rest() if isinstance(made, Scene) else made


def play(steps: str) -> Scene:
    return Scene().play(steps)


def answered() -> Scene:
    return play("submit, claim, run, settle")


def dead() -> Scene:
    """A turn that failed and has its dead letter."""
    return play("submit, claim, settle a failed, dead_letter")


def taken_over() -> Scene:
    """A turn whose first worker was lost, and that was answered by a second one."""
    return play("submit, claim, take_over, settle")


Where = Callable[[Any], bool] | int | None
"""Which record of a kind: the one for which it is true, the one at this place, or the only one."""


def amended(made: Made, kind: str, where: Where = None, **changed: Any) -> Evidence:
    """The evidence with one record changed."""
    evidence = end(made)
    records = getattr(evidence, kind)
    if not isinstance(where, int):
        [where] = [place for place, record in enumerate(records) if where is None or where(record)]
    records[where] = replace(records[where], **changed)
    return evidence


def more(made: Made, kind: str, *, like: int = -1, **changed: Any) -> Evidence:
    """The evidence with one more record, made from another one of its kind."""
    evidence = end(made)
    records = getattr(evidence, kind)
    records.append(replace(records[like], **changed))
    return evidence


def without(made: Made, kind: str, place: int | None = None) -> Evidence:
    """The evidence without one record of a kind, or without all of them."""
    evidence = end(made)
    del getattr(evidence, kind)[slice(None) if place is None else place]
    return evidence


def plus(made: Made, **records: Any) -> Evidence:
    """The evidence with one more record of each kind that is named."""
    evidence = end(made)
    for kind, record in records.items():
        getattr(evidence, kind).append(record)
    return evidence
