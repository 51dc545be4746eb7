"""The evidence of a load, read back: how long each turn took, and what every part used meanwhile."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proof.load.plan import ALONE, PACED, Outcome, Plan
from tests.proof.load.sampling import HARNESS, MACHINE

SERVERS = ("postgres", "redis", "emulator")
OTHERS = "others"
"""All other processes on the machine."""

MB = 1e6

Point = tuple[float, float]
"""A time and a value. Times are seconds since the paced part began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of the paced part. Milliseconds, all but `due`, which is in seconds since the part began."""

    due: float
    burst: bool
    tenant: str
    lag: float
    """From when it was due until it was submitted: what the harness itself was late."""
    answered: float | None
    """From when it was due until its submit was answered."""
    waited: float | None
    """From its row to its claim."""
    ended: float | None
    """From when it was due to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    name: str
    outcome: Outcome
    turns: Sequence[Turn]
    alone: Sequence[Turn]
    """Of a flood: the turns of the quiet tenant before it. `due` counts from the beginning of the flood, so it is negative."""
    crowd: Mapping[str, int]
    """What a crowd was answered, by kind of client and status."""
    samples: Sequence[dict[str, Any]]

    @property
    def seconds(self) -> float:
        return self.outcome.ended_at - self.outcome.begun_at

    @property
    def ended(self) -> int:
        return sum(turn.ended is not None for turn in self.turns)

    def since(self, at: float) -> float:
        return at - self.outcome.begun_at


def read(folder: Path) -> Loaded:
    document = json.loads((folder / "outcome.json").read_text())
    outcome = Outcome(**{**document, "plan": Plan(**document["plan"])})
    rows = {row["turn_id"]: row for row in _lines(folder / "turns.jsonl")}
    claimed: dict[str, float] = {}
    for record in _lines(folder / "attempts.jsonl"):
        claimed.setdefault(record["turn_id"], record["started_at"])
    turns: dict[str, list[Turn]] = {PACED: [], ALONE: []}
    for asked in _lines(folder / "arrivals.jsonl"):
        if asked["phase"] not in turns:
            continue
        row, due = rows.get(asked["turn_id"], {}), asked["due"]
        started, finished = claimed.get(asked["turn_id"]), row.get("finished_at")
        turns[asked["phase"]].append(
            Turn(
                due=due - outcome.begun_at,
                burst=asked["burst"],
                tenant=asked.get("tenant", ""),
                lag=1000 * (asked["at"] - due),
                answered=None if asked["turn_id"] is None else 1000 * (asked["until"] - due),
                waited=None if started is None else 1000 * (started - row["created_at"]),
                ended=None if finished is None else 1000 * (finished - due),
            )
        )
    crowd = folder / "crowd.json"
    return Loaded(
        name=folder.name,
        outcome=outcome,
        turns=turns[PACED],
        alone=turns[ALONE],
        crowd=json.loads(crowd.read_text()) if crowd.exists() else {},
        samples=list(_lines(folder / "samples.jsonl")),
    )


def series(loaded: Loaded, name: str, unit: float = 1.0) -> list[Point]:
    return [(loaded.since(sample["at"]), sample[name] / unit) for sample in loaded.samples]


def cores(loaded: Loaded) -> dict[str, Sequence[Point]]:
    """The cores that each group of parts and all other processes used."""
    found: dict[str, Sequence[Point]] = {}
    for group in (*_groups(loaded), HARNESS, OTHERS):
        points: dict[float, float] = {}
        for name, sign in _members(loaded, group):
            for at, value in _growth(_counter(loaded, name)):
                points[at] = points.get(at, 0.0) + sign * value
        found[group] = sorted((at, max(0.0, value)) for at, value in points.items())
    return found


def spent(loaded: Loaded, group: str) -> float:
    return max(
        0.0,
        sum(
            sign * _gain(before, after)
            for name, sign in _members(loaded, group)
            for before, after in itertools.pairwise(_counter(loaded, name))
        ),
    )


def _growth(points: Sequence[Point]) -> list[Point]:
    """By how much a counter grew a second, between each two looks."""
    return [
        ((before[0] + after[0]) / 2, _gain(before, after) / (after[0] - before[0]))
        for before, after in itertools.pairwise(points)
    ]


def _gain(before: Point, after: Point) -> float:
    # Another process may have taken the first one's place: its counter begins at 0.
    return after[1] - before[1] if after[1] >= before[1] else after[1]


def _counter(loaded: Loaded, part: str) -> list[Point]:
    return [(loaded.since(sample["at"]), sample["cpu"][part]) for sample in loaded.samples if part in sample["cpu"]]


def _members(loaded: Loaded, group: str) -> list[tuple[str, int]]:
    parts = {name for sample in loaded.samples for name in sample["cpu"]}
    if group == OTHERS:
        return [(MACHINE, 1), *((name, -1) for name in sorted(parts - {MACHINE}))]
    return [(name, 1) for name in sorted(parts) if _group(name) == group]


def _groups(loaded: Loaded) -> list[str]:
    """Those with known memory, the product's own first."""
    names = {_group(name) for sample in loaded.samples for name in sample["memory"]}
    return [*sorted(names - set(SERVERS), reverse=True), *SERVERS]


def _group(part: str) -> str:
    return {"worker": "workers", "api": "api", "relay": "relay"}.get(part.partition("-")[0], part)


def memory(loaded: Loaded) -> dict[str, Sequence[Point]]:
    found: dict[str, Sequence[Point]] = {}
    for group in _groups(loaded):
        found[group] = [
            (
                loaded.since(sample["at"]),
                sum(size for name, size in sample["memory"].items() if _group(name) == group) / MB,
            )
            for sample in loaded.samples
        ]
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)
