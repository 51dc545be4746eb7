"""How a bug is planted: a statement or a function of the product is replaced, in this process only.

A bug that no longer fits the code it was written for is refused, or its run would prove nothing.
"""

from collections.abc import Callable
from dataclasses import replace as with_fields
from types import ModuleType
from typing import Any

import turnstile.worker.settling


class UnfitBugError(Exception):
    """The code that a planted bug alters no longer exists."""


def alter(module: ModuleType, statement: str, *edits: tuple[str, str], times: int = 1) -> None:
    """Edits a statement's text: each (old, new), where `old` must stand there exactly `times` times."""
    text = getattr(module, statement)
    for old, new in edits:
        if text.count(old) != times:
            raise UnfitBugError(f"{module.__name__}.{statement} has {text.count(old)} times {old!r}, not {times}")
        text = text.replace(old, new)
    setattr(module, statement, text)


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts `make(original)` in the original's place."""
    if not hasattr(owner, name):
        raise UnfitBugError(f"{owner.__name__} has no {name}")
    setattr(owner, name, make(getattr(owner, name)))


def instead_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Puts the decorated function in the original's place; it gets the original as its first argument."""

    def put(new: Callable[..., Any]) -> None:
        replace(owner, name, lambda original: lambda *args, **fields: new(original, *args, **fields))

    return put


def settle_otherwise(applies: Callable[[Any], bool], **fields: Any) -> None:
    """Gives these fields to the settlements of the outcomes of which `applies` is true."""

    @instead_of(turnstile.worker.settling, "decide")
    def decide(original: Any, outcome: Any, *args: Any, **more: Any) -> Any:
        settlement = original(outcome, *args, **more)
        return with_fields(settlement, **fields) if applies(outcome) else settlement
