"""Recorded values (I3, I4): a value is recorded once, by the run that made it, and every later run gets it.

The handler leaves a line before it does something (`did`), and one when it has been given what came of it (`got`). Between
the deed and its record a worker may die, so doing it again is correct until a run has been given the first value.
"""

from collections.abc import Iterator

from tests.proof.checker.evidence import HandlerRun
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import RecordedValue

UNDER_WAY_SECONDS = 0.25
"""A statement that checked its fence a moment ago may still be writing."""


@rule("I3")
def done_once(ledger: Ledger) -> Findings:
    for turn_id, effects in ledger.effects.items():
        yield from about(turn_id, _effects_against(ledger, turn_id, effects, ledger.values.get(turn_id, {})))
    for turn_id, recorded in ledger.values.items():
        reply = ledger.reply_of(turn_id)
        for key, value in ((reply.get("once") if isinstance(reply, dict) else None) or {}).items():
            if key not in recorded or recorded[key].value != value:
                yield turn_id, f"answered with {value!r} for {key}, and recorded is {recorded.get(key)}"


def _effects_against(
    ledger: Ledger, turn_id: str, effects: list[HandlerRun], recorded: dict[str, RecordedValue]
) -> Iterator[str]:
    given: dict[str | None, float] = {}
    for effect in effects:
        if effect.what != "got":
            continue
        given[effect.key] = min(effect.at, given.get(effect.key, effect.at))
        says = f"was given {effect.value!r} for {effect.key} under fence {effect.fence}"
        if effect.key not in recorded:
            yield f"{says}, which is not recorded"
        elif effect.value != recorded[effect.key].value:
            yield f"{says}, and recorded is {recorded[effect.key].value!r}"
    for effect in effects:
        began = ledger.began.get((turn_id, effect.fence))
        known = given.get(effect.key)
        if effect.what == "did" and began is not None and known is not None and began.at > known:
            yield f"did {effect.key} again under fence {effect.fence}, after its value had been given"
    for value in recorded.values():
        made = [one.value for one in effects if (one.what, one.key, one.fence) == ("did", value.key, value.fence)]
        if value.value not in made:
            yield f"has {value.value!r} recorded for {value.key} under fence {value.fence}, which made {made}"


@rule("I4")
def values_are_recorded_under_the_newest_fence(ledger: Ledger) -> Findings:
    for value in ledger.evidence.values:
        for run in ledger.runs[value.turn_id]:
            if run.fence > value.fence and run.at + UNDER_WAY_SECONDS < value.at:
                says = f"{value.key} was recorded under fence {value.fence}, after fence {run.fence} had begun"
                yield value.turn_id, says
