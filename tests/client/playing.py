"""Plays the core of a call without HTTP and without a clock."""

from dataclasses import dataclass, field
from typing import Any

from turnstile.client.exchange import Answer, Ask, Broken, Done, Listen, Open, Outcome, Pause, Request, Steps, Tell
from turnstile.client.terms import Terms

TERMS = Terms("http://api", patience_seconds=30.0, fraction=lambda: 1.0)
"""Each pause is as long as it may be."""


@dataclass
class Played:
    """What a call did."""

    result: Any = None
    told: list[Any] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)


def play(steps: Steps[Any], *outcomes: Outcome) -> Played:
    """Plays a call to its end. The outcomes are those of its requests and of what it hears, in their order."""
    played = Played()
    left = list(outcomes)
    outcome: Outcome | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            assert left == [], "the call has made fewer requests"
            played.result = end.value
            return played
        outcome = Done()
        match step:
            case Ask(request) | Open(request):
                played.requests.append(request)
                outcome = left.pop(0)
            case Listen():
                outcome = left.pop(0)
            case Pause(seconds):
                played.pauses.append(seconds)
            case Tell(value):
                played.told.append(value)


def answer(status: int, body: bytes = b"{}", took: float = 0.0, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, body=body, took=took)


def gone(*, sent: bool = True, took: float = 0.0) -> Broken:
    return Broken(reason="it broke", sent=sent, took=took)
