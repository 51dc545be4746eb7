"""The list of all points: `points.txt`, which a person reads and a test compares with the code.

Each line: the name of the point, the story that brings a victim there, who answers what is awaited (postgres, redis, sqs;
`-` for what is awaited inside the process, where no answer can get lost), and, for a point that many pass, after which
other point it is meant. A name may stand several times, under different verbs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proof.crashpoints.passing import FAULTS, FaultKind

LIST = Path(__file__).parent / "points.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    verb: str
    name: str
    story: str
    answered_by: str
    after: str | None = None

    def __str__(self) -> str:
        return f"{self.verb}: {self.name}" + (f" after {self.after}" if self.after else "")

    @property
    def faults(self) -> Sequence[FaultKind]:
        """The faults that can strike here: an answer can get lost only where there is one."""
        return [fault for fault in FAULTS if fault is not FaultKind.LOST or self.answered_by != "-"]


@dataclass(frozen=True, slots=True)
class Listing:
    points: tuple[Point, ...]
    left_out: dict[str, str]
    """Names that are not points of the matrix, and why."""


def read(path: Path = LIST) -> Listing:
    """Parses the list. Raises ValueError for a line that is none."""
    points: list[Point] = []
    left_out: dict[str, str] = {}
    for verb, line in _lines(path.read_text("utf-8")):
        name, *words = re.split(r"\s{2,}", line)
        if verb == "left out":
            left_out[name] = " ".join(words)
            continue
        if not 2 <= len(words) <= 3:
            raise ValueError(f"{path.name}: {line}")
        after = words[2].removeprefix("after ") if len(words) == 3 else None
        points.append(Point(verb=verb, name=name, story=words[0], answered_by=words[1], after=after))
    return Listing(tuple(points), left_out)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    verb = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("## "):
            verb = line.removeprefix("## ")
        elif line and not line.startswith("#"):
            yield verb, line
