"""Figures of a run, for the report. No violations."""

from collections import Counter
from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.streams import ENDS
from tests.proof.checker.waste import wasted


def figures(evidence: Evidence) -> dict[str, Any]:
    """Counts; and in seconds how long a lost claim waited for its takeover at most, and the run for its rest."""
    ledger = Ledger(evidence)
    rested_at, healed_at = evidence.terms.rested_at, evidence.terms.healed_at
    waits = [taken.at - taken.lease_before for taken in ledger.takeovers.values() if taken.lease_before is not None]
    return {
        "turns": _counted(row.status for row in evidence.turns),
        "sessions": len(ledger.sessions),
        "claims": len(ledger.claims),
        "attempts": _counted(record.outcome for record in evidence.attempts),
        "redrives": sum(change.generation > 1 and change.before == "FAILED" for change in evidence.audit),
        "handler_runs": len(ledger.began) + len(ledger.began_again),
        "wasted_runs": len(wasted(ledger)),
        "takeovers": len(waits),
        "longest_takeover_wait": round(max(waits, default=0.0), 3),
        "children": sum(map(len, ledger.children.values())),
        "joins": sum(join.after is not None for join in evidence.joins),
        "values_recorded": len(evidence.values),
        "compensations": sum(map(len, ledger.compensations.values())),
        "calls": _counted(f"{call.op} {call.outcome}" for call in evidence.history),
        "waits": sum(call.wait is not None for call in evidence.history),
        "streams": len({read.reader for read in evidence.streams}),
        "streams_read_to_the_end": sum(any(e["event"] in ENDS for e in read.events[-1:]) for read in evidence.streams),
        "webhooks_delivered": sum(one.delivered_at is not None for one in evidence.webhooks),
        "webhook_posts": _counted(post.answer for post in evidence.posts),
        "faults": _counted(fault.kind for fault in evidence.faults),
        "dead_letters": sum(message.dead for message in evidence.queued),
        "rest_seconds": None if rested_at is None else round(rested_at - healed_at, 3),
    }


def _counted(values: Any) -> dict[str, int]:
    counts = Counter(values)
    return {"in all": counts.total(), **dict(sorted(counts.items()))}
