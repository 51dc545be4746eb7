"""The end of a cell: its evidence is written, and judged by the checker and by what the story expects."""

import time
from typing import TYPE_CHECKING

from tests.proof.chaos.quiescence import gather
from tests.proof.checker import Evidence, Violation, check, load, stories_of
from tests.proof.checker.evidence import Fault, Life
from tests.proof.crashpoints.passing import FaultKind
from tests.proof.crashpoints.terms import MALFORMED
from tests.proof.terms import make_terms, write_terms

if TYPE_CHECKING:
    from tests.proof.crashpoints.actors import Actor
    from tests.proof.crashpoints.cell import Director

BUG = "CrashPointError"


def collect(director: "Director", actors: "list[Actor]") -> None:
    """Writes the cell's folder, as `tests.proof.checker.evidence` wants it."""
    stage, cell = director.stage, director.cell
    terms = make_terms(
        stage.settings,
        name=director.result.name,
        seed=director.seed,
        bound_seconds=60.0,
        healed_at=director.healed_at,
        rested_at=director.rested_at,
    )
    write_terms(terms, director.folder)
    until = max(director.healed_at, director.struck_at) + terms.lease_seconds
    strikes = [(prelude.fault, prelude.point, director.victim.started_at) for prelude in director.story.preludes]
    strikes.append((cell.fault, cell.point.name, director.struck_at))
    for kind, point, at in strikes:
        stage.journal.write(Fault(at=at, until=until, kind=kind.value, target=point, pid=director.victim.pid))
    for actor in actors:
        if not actor.role:
            continue
        stage.journal.write(Life(at=actor.started_at, role=actor.role, pid=actor.pid, what="started"))
        meant = actor.meant or actor.code == 0 or actor is director.victim
        ended_at = actor.ended_at or time.time()
        stage.journal.write(
            Life(at=ended_at, role=actor.role, pid=actor.pid, what="ended", code=actor.code, meant=meant)
        )
    gather(stage.remains, stage.journal)


def judge(director: "Director") -> list[str]:
    """What is wrong with it, one line or one story each."""
    evidence = load(director.folder)
    return [*_expectations(director, evidence), *_convictions(director, evidence)]


def _expectations(director: "Director", evidence: Evidence) -> list[str]:
    stage, problems = director.stage, []
    rows = {row.turn_id: row for row in evidence.turns}
    allowed = {director.story.may_fail} - {None}
    if director.cell.fault is FaultKind.EXCEPTION:
        # At the await of the handler the bug is the handler's.
        allowed |= {BUG, "ChildFailedError"}
    for turn_id, wanted in stage.expected.items():
        row = rows.get(turn_id)
        status, error_class = ("missing", None) if row is None else (row.status, row.error_class)
        if status != wanted and not (status == "FAILED" and error_class in allowed):
            problems.append(f"turn {turn_id} is {status} ({error_class}), not {wanted}")
    for row in evidence.turns:
        if row.parent is not None and row.status != "SUCCEEDED" and row.error_class not in allowed:
            problems.append(f"a child of turn {row.parent} is {row.status} ({row.error_class})")
    if sum(letter.dead and letter.body == MALFORMED for letter in evidence.queued) < stage.malformed:
        problems.append("the malformed message is not on the DLQ")
    return problems


def _convictions(director: "Director", evidence: Evidence) -> list[str]:
    bug = director.cell.fault is FaultKind.EXCEPTION
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
