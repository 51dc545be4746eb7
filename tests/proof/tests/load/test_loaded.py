"""Which times and which CPU a load reports: a run has nothing that would notice a wrong one."""

import json
import math
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.proof.load.abuse import FLOODER, QUIET
from tests.proof.load.loaded import cores, memory, read, spent
from tests.proof.load.plan import Outcome, Plan
from tests.proof.load.report import delay_seconds
from tests.proof.load.sampling import Sample

BEGUN = 1000.0
DELAYS = ((FLOODER, 60_000.0), (QUIET, 100.0), (QUIET, 1500.0))
PLAN = Plan(
    over_http=False,
    seconds=10.0,
    measure_seconds=1.0,
    warm_up_seconds=1.0,
    share=0.7,
    burst_every=10.0,
    burst_seconds=1.0,
)


def sample(at: float, cpu: dict[str, float], **more: Any) -> Sample:
    fields: dict[str, Any] = {
        "connections": 4, "redis_connections": 2, "redis_bytes": 10**6, "wal": int(at * 10**6), "tables": 10**6,
        "indexes": 10**6, "dead": 0, "due": 1, "ready": 1, "running": 2, "oldest_seconds": 0.5, "messages": 3,
        "workers": 2, "memory": {"worker-1": 50 * 10**6, "worker-2": 30 * 10**6, "postgres": 90 * 10**6},
    }  # fmt: skip
    return Sample(at=BEGUN + at, cpu=cpu, **fields | more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten turns, one a second; the last one was refused. Each is claimed after 10 ms and takes 200 from when it was due."""
    folder = tmp_path / "run" / "queue"
    folder.mkdir(parents=True)
    outcome = Outcome(plan=PLAN, capacity=100.0, begun_at=BEGUN, ended_at=BEGUN + 10, rested_at=BEGUN + 11.5)
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)))
    asked, rows, attempts = [], [], []
    for number in range(10):
        due = BEGUN + number
        turn_id = f"t{number}" if number < 9 else None
        asked.append(
            {
                "phase": "paced",
                "burst": number == 5,
                "due": due,
                "at": due + 0.02,
                "until": due + 0.05,
                "turn_id": turn_id,
            }
        )
        if turn_id:
            rows.append({"turn_id": turn_id, "created_at": due + 0.03, "finished_at": due + 0.2})
            attempts.append({"turn_id": turn_id, "started_at": due + 0.04})
    # What was done while capacity was measured counts nowhere.
    asked.append({"phase": "full", "burst": False, "due": 1.0, "at": 1.0, "until": 2.0, "turn_id": "other"})
    rows.append({"turn_id": "other", "created_at": 1.0, "finished_at": 2.0})
    samples = [
        sample(0, {"worker-1": 5.0, "postgres": 1.0, "harness": 0.0, "machine": 10.0}),
        sample(5, {"worker-1": 6.0, "worker-2": 0.5, "postgres": 2.0, "harness": 1.0, "machine": 17.0}),
        sample(10, {"worker-1": 7.0, "worker-2": 1.5, "postgres": 3.0, "harness": 2.0, "machine": 24.0}),
    ]
    for name, lines in {
        "arrivals": asked,
        "turns": rows,
        "attempts": attempts,
        "samples": map(asdict, samples),
    }.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_times_count_from_when_a_turn_was_due(folder: Path) -> None:
    turn = read(folder).turns[0]

    assert (turn.due, turn.burst) == (0.0, False)
    assert turn.lag == pytest.approx(20)
    assert turn.answered == pytest.approx(50)
    assert turn.waited == pytest.approx(10)
    assert turn.ended == pytest.approx(200)


def test_a_turn_that_was_refused_has_no_times(folder: Path) -> None:
    loaded = read(folder)

    assert len(loaded.turns) == 10
    assert loaded.ended == 9
    last = loaded.turns[-1]
    assert (last.answered, last.waited, last.ended) == (None, None, None)


def test_a_worker_that_came_later_counts_from_when_it_was_seen(folder: Path) -> None:
    loaded = read(folder)

    assert spent(loaded, "workers") == pytest.approx(3.0)
    assert [*chain(*cores(loaded)["workers"])] == pytest.approx([2.5, 0.2, 7.5, 0.4])
    assert memory(loaded)["workers"][0] == pytest.approx((0.0, 80.0))


def test_the_delay_of_a_flood_is_that_of_the_other_tenants_slowest_turns(folder: Path) -> None:
    loaded = read(folder)
    [flooder, quick, slow] = [replace(loaded.turns[0], tenant=tenant, ended=ended) for tenant, ended in DELAYS]

    calm = replace(loaded, alone=[quick] * 20, turns=[quick] * 20 + [flooder])
    flooded = replace(loaded, alone=[quick] * 20, turns=[quick] * 10 + [slow] * 10 + [flooder])
    lost = replace(loaded, alone=[quick] * 20, turns=[replace(quick, ended=None)] * 20)

    assert [delay_seconds(one) for one in (calm, flooded, lost)] == [0.0, pytest.approx(1.4), math.inf]
