"""One seed from its number to the checker's verdict, and what is printed of one that fails."""

import hashlib
import time
from dataclasses import dataclass

from tests.proof.checker import Evidence, Violation, check, stories_of
from tests.proof.checker.evidence import FILES
from tests.proof.simulation.nemesis import KINDS, nemesis
from tests.proof.simulation.plan import Plan, make_plan
from tests.proof.simulation.seeded_run import live

STORIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of one seed."""

    seed: int
    turns: int
    faults: int
    kinds: frozenset[str]
    violations: tuple[Violation, ...]
    cpu_seconds: float
    """Of real time, without what other programs took of it."""
    rest_seconds: float
    """Virtual, from the healing to rest."""
    report: str = ""


def run_seed(seed: int, *, traced: bool = False) -> tuple[Plan, Evidence]:
    plan = make_plan(seed, tuple(KINDS))
    return plan, live(plan, nemesis, traced=traced)


def judge(seed: int, *, traced: bool = False) -> Judged:
    begun = time.process_time()
    plan, evidence = run_seed(seed, traced=traced)
    violations = check(evidence)
    terms = evidence.terms
    return Judged(
        seed=seed,
        turns=len(evidence.turns),
        faults=len(evidence.faults),
        kinds=frozenset(fault.kind for fault in evidence.faults),
        violations=tuple(violations),
        cpu_seconds=time.process_time() - begun,
        rest_seconds=(terms.rested_at or terms.healed_at + terms.bound_seconds) - terms.healed_at,
        report=_report(plan, evidence, violations) if violations else "",
    )


def digest(evidence: Evidence) -> str:
    """A hash over all that happened, times included: equal for two runs of one seed, or the replay is not exact."""
    told = hashlib.blake2b(digest_size=16)
    for name in (*FILES, "logs"):
        for record in getattr(evidence, name):
            told.update(repr(record).encode())
    return told.hexdigest()


def _report(plan: Plan, evidence: Evidence, violations: list[Violation]) -> str:
    lines = [f"seed {plan.seed}: {len(violations)} violations; kinds: {', '.join(plan.kinds)}"]
    lines += [
        f"  {violation.invariant} {violation.turn_id or violation.session}: {violation.claim}"
        for violation in violations[:20]
    ]
    turn_ids = list(dict.fromkeys(violation.turn_id for violation in violations if violation.turn_id))[:STORIES]
    lines += stories_of(evidence, turn_ids).values()
    lines.append(f"replay it: python -m tests.proof.simulation --seed {plan.seed} --trace")
    return "\n".join(lines)
