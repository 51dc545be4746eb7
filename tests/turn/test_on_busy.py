"""The decision about a message for a busy session."""

from uuid import UUID

import pytest

from turnstile.turn.on_busy import (
    MAX_INPUT_BYTES,
    MAX_INPUTS,
    Decision,
    LastInLine,
    Merge,
    OnBusy,
    Record,
    Refuse,
    SessionState,
    decide,
)

HEAD, LAST = UUID(int=1), UUID(int=2)


def last(*, queue: str = "turns", untouched: bool = True, inputs: int = 1, size: int = 9) -> LastInLine:
    return LastInLine(turn_id=LAST, queue=queue, untouched=untouched, inputs=inputs, input_bytes=size)


@pytest.mark.parametrize(
    ("on_busy", "state", "decision"),
    [
        (OnBusy.ENQUEUE, SessionState(busy_with=HEAD, last=last()), Record()),
        (OnBusy.REJECT, SessionState(), Record()),
        (OnBusy.REJECT, SessionState(busy_with=HEAD), Refuse(HEAD)),
        (OnBusy.INTERRUPT, SessionState(), Record(interrupting=True)),
        (OnBusy.MERGE, SessionState(), Record()),
        (OnBusy.MERGE, SessionState(last=last()), Merge(LAST)),
        (OnBusy.MERGE, SessionState(last=last(untouched=False)), Record()),
        (OnBusy.MERGE, SessionState(last=last(queue="other")), Record()),
        (OnBusy.MERGE, SessionState(last=last(inputs=MAX_INPUTS - 1)), Merge(LAST)),
        (OnBusy.MERGE, SessionState(last=last(inputs=MAX_INPUTS)), Record()),
        (OnBusy.MERGE, SessionState(last=last(size=MAX_INPUT_BYTES - 1)), Merge(LAST)),
        (OnBusy.MERGE, SessionState(last=last(size=MAX_INPUT_BYTES)), Record()),
    ],
)
def test_the_decision(on_busy: OnBusy, state: SessionState, decision: Decision) -> None:
    assert decide(on_busy, state, "turns") == decision
