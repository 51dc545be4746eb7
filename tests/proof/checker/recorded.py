"""Recorded values (I3, I4): a value is recorded once, by the run that made it, and every later run gets it.

The handler leaves a line before it does something (`did`), and one when it has been given what came of it (`got`). Between
the deed and its record a worker may die, so doing it again is correct until a run has been given the first value.
"""

from collections.abc import Iterator

from tests.proof.checker.evidence import HandlerRun
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import RecordedValue
from tests.proof.checker.violation import Violation

UNDER_WAY_SECONDS = 0.25
"""A statement that checked its fence a moment ago may still be writing."""


def done_once(ledger: Ledger) -> Iterator[Violation]:
    for turn_id, effects in ledger.effects.items():
        recorded = ledger.values.get(turn_id, {})
        for says in _forgotten(ledger, turn_id, effects, recorded):
            yield Violation("I3", says, turn_id, ledger.session_of(turn_id))
        for value in recorded.values():
            for says in _unfounded(value, effects):
                yield Violation("I3", says, turn_id, ledger.session_of(turn_id))
    for turn_id, recorded in ledger.values.items():
        for value in recorded.values():
            for run in ledger.runs_of.get(turn_id, ()):
                if run.fence > value.fence and run.at + UNDER_WAY_SECONDS < value.at:
                    says = f"{value.key} was recorded under fence {value.fence}, after fence {run.fence} had begun"
                    yield Violation("I4", says, turn_id, ledger.session_of(turn_id))
        yield from _answered(ledger, turn_id, recorded)


def _forgotten(
    ledger: Ledger, turn_id: str, effects: list[HandlerRun], recorded: dict[str, RecordedValue]
) -> Iterator[str]:
    given: dict[str, float] = {}
    for effect in effects:
        key = effect.key or ""
        if effect.what != "got":
            continue
        given[key] = min(effect.at, given.get(key, effect.at))
        if key not in recorded:
            yield f"was given {effect.value!r} for {key} under fence {effect.fence}, which is not recorded"
        elif effect.value != recorded[key].value:
            says = f"was given {effect.value!r} for {key} under fence {effect.fence}"
            yield f"{says}, and recorded is {recorded[key].value!r}"
    for effect in effects:
        began = ledger.began.get((turn_id, effect.fence))
        known = given.get(effect.key or "")
        if effect.what == "did" and began is not None and known is not None and began.at > known:
            yield f"did {effect.key} again under fence {effect.fence}, after its value had been given"


def _unfounded(value: RecordedValue, effects: list[HandlerRun]) -> Iterator[str]:
    made = [one.value for one in effects if (one.what, one.key, one.fence) == ("did", value.key, value.fence)]
    if value.value not in made:
        yield f"has {value.value!r} recorded for {value.key} under fence {value.fence}, which made {made}"


def _answered(ledger: Ledger, turn_id: str, recorded: dict[str, RecordedValue]) -> Iterator[Violation]:
    reply = ledger.reply_of(turn_id)
    told = reply.get("once") if isinstance(reply, dict) else None
    for key, value in (told or {}).items():
        if key not in recorded or recorded[key].value != value:
            says = f"answered with {value!r} for {key}, and recorded is {recorded.get(key)}"
            yield Violation("I3", says, turn_id, ledger.session_of(turn_id))
