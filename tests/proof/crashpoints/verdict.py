"""The end of a cell: its evidence is written, and judged by the checker and by what the story expects."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.proof.chaos import audit
from tests.proof.checker import Violation, check, load, stories_of
from tests.proof.crashpoints import terms
from tests.proof.crashpoints.passing import FaultKind

if TYPE_CHECKING:
    from tests.proof.crashpoints.actors import Actor
    from tests.proof.crashpoints.cell import Director

BUG = "CrashPointError"


def collect(director: "Director", actors: "list[Actor]") -> None:
    """Writes the cell's folder, as `tests.proof.checker.evidence` wants it."""
    stage, cell, folder = director.stage, director.cell, director.folder
    audit.collect(stage.database_url, folder)
    run = {
        "name": director.result.name,
        "seed": director.seed,
        "lease_seconds": terms.LEASE_SECONDS,
        "grace_seconds": terms.GRACE_SECONDS,
        "resend_seconds": terms.RESEND_SECONDS,
        "relay_tick_seconds": terms.RELAY_TICK_SECONDS,
        "retry_cap_seconds": terms.RETRY_CAP_SECONDS,
        "max_attempts": terms.MAX_ATTEMPTS,
        "max_crashes": terms.MAX_CRASHES,
        "slots": terms.SLOTS,
        "bound_seconds": 60.0,
        "healed_at": director.healed_at,
        "rested_at": director.rested_at,
        "calm": False,
        "fifo": director.fifo,
    }
    (folder / "run.json").write_text(json.dumps(run))
    until = max(director.healed_at, director.struck_at) + terms.LEASE_SECONDS
    strikes = [(prelude.fault, prelude.point, director.victim.started_at) for prelude in director.story.preludes]
    if cell is not None:
        strikes.append((cell.fault, cell.point.name, director.struck_at))
    for kind, point, at in strikes:
        fault = {"at": at, "until": until, "kind": kind.value, "target": point, "pid": director.victim.pid}
        stage.write("faults", fault)
    for actor in actors:
        if not actor.role:
            continue
        life: dict[str, Any] = {"role": actor.role, "pid": actor.pid}
        stage.write("lives", {**life, "at": actor.started_at, "what": "started"})
        meant = actor.meant or actor.code == 0 or actor is director.victim
        ended = {"at": actor.ended_at or time.time(), "what": "ended", "code": actor.code, "meant": meant}
        stage.write("lives", {**life, **ended})
    for line in stage.lock_keys():
        stage.write("keys", line)
    for line in stage.messages():
        stage.write("queued", line)


def judge(director: "Director") -> list[str]:
    """What is wrong with it, one line or one story each."""
    return [*_expectations(director), *_convictions(director)]


def _expectations(director: "Director") -> list[str]:
    stage, problems = director.stage, []
    statuses = stage.statuses()
    allowed = {director.story.may_fail} - {None}
    if director.cell is not None and director.cell.fault is FaultKind.EXCEPTION:
        # At the await of the handler the bug is the handler's.
        allowed |= {BUG, "ChildFailedError"}
    for turn_id, wanted in stage.expected.items():
        status, error_class = statuses.get(turn_id, ("missing", None))
        if status == wanted or (status == "FAILED" and error_class in allowed):
            continue
        problems.append(f"turn {turn_id} is {status} ({error_class}), not {wanted}")
    children = stage.children()
    for parent, status, error_class in children:
        if status != "SUCCEEDED" and error_class not in allowed:
            problems.append(f"a child of turn {parent} is {status} ({error_class})")
    letters = _records(director.folder, "queued")
    malformed = sum(letter["dead"] and letter["body"] == terms.MALFORMED for letter in letters)
    if malformed < stage.malformed:
        problems.append("the malformed message is not on the DLQ")
    return problems


def _convictions(director: "Director") -> list[str]:
    evidence = load(director.folder)
    bug = director.cell is not None and director.cell.fault is FaultKind.EXCEPTION
    violations = check(evidence)
    stories = stories_of(evidence, [violation.turn_id for violation in violations])
    return [
        f"{violation.invariant}: {violation.claim}\n{stories.get(violation.turn_id, '')}"
        for violation in violations
        # A bug that was planted is reported as one, and may end its process: that is what the log is for.
        if not (
            violation.invariant == "LOGS" and (BUG in violation.claim or (bug and _is_of_victim(director, violation)))
        )
    ]


def _is_of_victim(director: "Director", violation: Violation) -> bool:
    return f" {director.victim.pid} " in violation.claim


def _records(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
