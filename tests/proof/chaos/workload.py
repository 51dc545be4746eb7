"""The turns that clients submit: a seeded mixture of everything that a turn may do. Pure."""

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.proof.chaos import family_acts


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    content: dict[str, Any]
    scheduled_seconds: float | None = None
    max_attempts: int | None = None
    on_busy: str | None = None


_POLICIES = ("reject", "interrupt", "merge", "merge")
POLICIES = 0.15
"""The share of the turns that ask for something if their session is busy."""

_WEIGHTS = {
    "echo": 50,
    "sleep": 25,
    "speak": 12,
    "remember": 14,
    "flaky": 7,
    "snooze": 3,
    "fail": 2,
    "bug": 3,
    "reject": 2,
    "nul": 2,
    "unfit": 1,
    "scheduled": 3,
    "long": 2,
}

CALM = frozenset({"echo", "sleep", "speak", "remember"})
"""What charges no attempt."""


HISTORIES = 0.3
"""The share of the turns whose handler asks for the history and writes down what it was shown."""


def make_wish(
    rng: random.Random, now: float, sleep_seconds: tuple[float, float], families: float, histories: float
) -> Wish:
    """One turn of the ordinary mixture: most answer at once, some are slow, some fail, some start others (`families`)."""
    if rng.random() < families:
        order = family_acts.make_order(rng, sleep_seconds)
        return Wish(content={**order, "history": rng.random() < histories, "n": f"{rng.getrandbits(40):010x}"})
    [what] = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
    history = rng.random() < histories
    match what:
        case "sleep":
            content: dict[str, Any] = {"do": "sleep", "seconds": round(rng.uniform(*sleep_seconds), 3)}
        case "long":
            content = {"do": "sleep", "seconds": round(rng.uniform(1, 3), 3)}
        case "speak":
            content = {"do": "speak", "words": rng.randint(1, 40), "pause": round(rng.uniform(0, 0.03), 3)}
        case "flaky":
            content = {"do": "flaky", "times": rng.randint(1, 2), "after": rng.choice([None, 0.05, 0.3])}
        case "snooze":
            content = {"do": "snooze", "until": now + rng.uniform(0.1, 1.0)}
        case "reject":
            content = {"do": "reject", "dead_letter": rng.random() < 0.5}
        case "fail":
            return Wish(content={"do": "fail", "history": history}, max_attempts=rng.choice([None, 2]))
        case "scheduled":
            return Wish(content={"do": "echo", "history": history}, scheduled_seconds=rng.uniform(0.2, 3.0))
        case other:
            content = {"do": other, "say": f"{rng.getrandbits(32):08x}"}
    on_busy = rng.choice(_POLICIES) if rng.random() < POLICIES else None
    return Wish(content={**content, "history": history, "n": f"{rng.getrandbits(40):010x}"}, on_busy=on_busy)


def make_speech(rng: random.Random) -> Wish:
    """A turn that speaks for two to five seconds: longer than a lease, shorter than its time-out."""
    words = rng.randint(14, 34)
    return Wish(content={"do": "speak", "words": words, "pause": 0.15, "n": f"{rng.getrandbits(40):010x}"})


def calmed(wish: Wish) -> Wish:
    """For a calm run: nothing that charges an attempt."""
    wish = replace(wish, on_busy=None)
    if wish.content["do"] in family_acts.ACTS:
        return replace(wish, content=family_acts.calmed(wish.content))
    return wish if wish.content["do"] in CALM else Wish(content={"do": "echo", "history": True})


def make_memory_wish(rng: random.Random) -> Wish:
    return Wish(content={"do": "remember", "say": f"{rng.getrandbits(32):08x}"})
