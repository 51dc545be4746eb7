"""Figures of a run, for the report. No violations."""

from collections import Counter
from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.message_accounting import read_turn_id
from tests.proof.checker.recovery import after_kill, after_stop
from tests.proof.checker.streams import ENDS
from tests.proof.checker.vocabulary import GENERATION_ATTRIBUTE
from tests.proof.checker.waits import lateness
from tests.proof.checker.waste import wasted


def figures(evidence: Evidence) -> dict[str, Any]:
    """Counts, and how long lost claims waited for their takeover (seconds after the lease was over)."""
    ledger = Ledger.of(evidence)
    terms = evidence.terms
    waits = sorted(
        change.at - change.lease_before for change in ledger.takeovers.values() if change.lease_before is not None
    )
    return {
        "turns": len(evidence.turns),
        "turns_by_status": _counted(row.status for row in evidence.turns),
        "sessions": len(ledger.sessions),
        "changes": len(evidence.audit),
        "claims": len(ledger.claims),
        "attempts": len(evidence.attempts),
        "attempts_by_outcome": _counted(record.outcome for record in evidence.attempts),
        "redrives": sum(change.generation > 1 and change.before == "FAILED" for change in evidence.audit),
        "handler_runs": len(ledger.began) + len(ledger.began_again),
        "wasted_runs": len(wasted(ledger)),
        "takeovers": len(waits),
        "takeover_wait_median": _quantile(waits, 0.5),
        "takeover_wait_p99": _quantile(waits, 0.99),
        "runs_again_after_kill": _spread(after_kill(ledger)),
        "handed_back_after_grace": _spread(after_stop(ledger)),
        "children": sum(map(len, ledger.children.values())),
        "joins": sum(join.after is not None for join in evidence.joins),
        "values_recorded": len(evidence.values),
        "compensations": sum(map(len, ledger.compensations.values())),
        "calls": len(evidence.history),
        "calls_by_outcome": _counted(f"{call.op} {call.outcome}" for call in evidence.history),
        "streams": len({read.reader for read in evidence.streams}),
        "stream_connections": len(evidence.streams),
        "streams_told_to_the_end": sum(
            bool(read.events) and read.events[-1]["event"] in ENDS for read in evidence.streams
        ),
        "waits": sum(call.wait is not None for call in evidence.history),
        "told_after_long_waits": _spread(sorted(seconds for _, seconds in lateness(ledger, evidence.history))),
        "webhooks": len(evidence.webhooks),
        "webhooks_delivered": sum(one.delivered_at is not None for one in evidence.webhooks),
        "webhook_posts_by_answer": _counted(post.answer for post in evidence.posts),
        "faults": len(evidence.faults),
        "faults_by_kind": _counted(fault.kind for fault in evidence.faults),
        "wire_calls": len(evidence.wire),
        "lock_commands": len(evidence.redis),
        "dead_letters": sum(message.dead for message in evidence.queued),
        "outlived_dead_letters": _outlived(ledger),
        "rest_seconds": None if terms.rested_at is None else round(terms.rested_at - terms.healed_at, 3),
    }


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _quantile(waits: list[float], part: float) -> float | None:
    return round(waits[min(len(waits) - 1, int(part * len(waits)))], 3) if waits else None


def _spread(waits: list[float]) -> dict[str, Any]:
    return {"many": len(waits), "median": _quantile(waits, 0.5), "p99": _quantile(waits, 0.99)}


def _outlived(ledger: Ledger) -> int:
    """Dead letters of generations that a redrive has ended: litter, which the next one sweeps."""
    many = 0
    for message in ledger.evidence.queued:
        row = ledger.rows.get(read_turn_id(message.body) or "") if message.dead else None
        named = message.attributes.get(GENERATION_ATTRIBUTE)
        many += row is not None and named is not None and int(named) < row.generation
    return many
