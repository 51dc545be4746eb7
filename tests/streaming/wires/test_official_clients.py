"""The official clients read whatever a turn's course is, wherever connections break: `make official-clients` installs them."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.support.drawn_examples import draw
from tests.support.told_turns import TURN, Course, courses, tell
from tests.support.wire_readers import Frame
from turnstile.streaming.event import EventId
from turnstile.streaming.wires.wire import Wire

CLIENTS = Path(__file__).parents[2] / "official_clients"
MANY = 60

pytestmark = pytest.mark.skipif(
    which("node") is None or not (CLIENTS / "node_modules").is_dir(), reason="no node, or no `make official-clients`"
)


@dataclass(frozen=True)
class Case:
    course: Course
    connections: list[list[Frame]]
    keeps: bool

    def asked(self, wire: Wire) -> str:
        bodies = ["".join(f"data: {frame.data}\n\n" for frame in frames) for frames in self.connections]
        return json.dumps({"as": wire, "connections": bodies, "keeps": self.keeps})


@st.composite
def cases(draw_one: st.DrawFn, wire: Wire) -> Case:
    course = draw_one(courses())
    connections: list[list[Frame]] = []
    seen: EventId | None = None
    for _ in range(draw_one(st.integers(0, 2))):
        sent = tell(wire, course, seen=seen, joins=bool(connections))
        cut = sent[: draw_one(st.integers(1, len(sent) - 1))]
        connections.append(cut)
        seen = next((EventId.parse(frame.id) for frame in reversed(cut) if frame.id), seen)
    return Case(
        course,
        [*connections, tell(wire, course, seen=seen, joins=bool(connections))],
        draw_one(st.booleans()),
    )


@pytest.mark.parametrize("wire", [Wire.AI_SDK, Wire.AG_UI])
def test_the_official_client_ends_with_the_reply(wire: Wire) -> None:
    drawn = draw(cases(wire), MANY)

    read = read_all([case.asked(wire) for case in drawn])

    for case, found in zip(drawn, read, strict=True):
        end = json.loads(case.course.events[-1].data)
        assert found["text"] == case.course.text, (case, found)
        assert found["id"] == TURN
        assert expected_error(wire, end) == found["error"], (case, found)


def read_all(lines: list[str]) -> list[Any]:
    ran = subprocess.run(
        ["node", "read_streams.mjs"],
        cwd=CLIENTS,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def expected_error(wire: Wire, end: dict[str, Any]) -> str | None:
    match end["status"]:
        case "FAILED":
            return end["error"]["message"] or "the turn has failed (Reject)"
        case "CANCELED" if wire is Wire.AG_UI:
            return "canceled (user)"
        case _:
            return None
