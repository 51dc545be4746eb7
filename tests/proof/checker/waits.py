"""Waits (I15): `Prefer: wait=N` and `?wait=N` end within their bound, and by event. (What they show is judged with reads.)"""

from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import TERMINAL

ANSWER_SECONDS = 4.0
"""What an answer may take without any wait: a client that does not wait gives it up then. On a machine that is so busy that
its other answers take longer, as long as those."""
DELAYS_ANSWERS = ("api-", "postgres-", "commit-", "redis-", "sqs-", "send-", "batches-")
"""How the faults begin that may delay an answer for longer."""
REACH_SECONDS = 2.0
"""So long after its end a fault may still be felt."""

LONG_SECONDS = 2.0
"""After so long a waiting request looks at the table once a second or less often: a response to an event is quicker than that."""
LATE_SECONDS = 0.8
LATE_SHARE = 1 / 3
"""One hint may get lost, or the machine have been busy. As a rule an end is answered when it is there."""


def _waited(ledger: Ledger) -> list[Call]:
    return [call for call in ledger.evidence.history if call.wait is not None]


def _answer_times(ledger: Ledger) -> list[float]:
    """How long answers took without a wait, in order."""
    plain = [call for call in ledger.evidence.history if call.wait is None and call.outcome != "unknown"]
    return sorted(call.until - call.at for call in plain) or [0.0]


@rule("I15")
def waits_end_in_time(ledger: Ledger) -> Findings:
    allowed = max(ANSWER_SECONDS, _answer_times(ledger)[-1])
    unanswered = any(call.outcome == "unknown" and call.wait is None for call in ledger.evidence.history)
    for call in _waited(ledger):
        lasted = call.until - call.at
        faults = ledger.faults_during(call.at - REACH_SECONDS, call.until, DELAYS_ANSWERS)
        if call.outcome == "unknown" and ledger.terms.calm and not unanswered:
            yield call.turn_id, f"{call.client} waited {call.wait:g} s for an answer, and got none in {lasted:.1f} s"
        elif call.outcome == "ok" and lasted > (call.wait or 0.0) + allowed and not faults:
            yield call.turn_id, f"{call.client} asked to wait {call.wait:g} s and was answered after {lasted:.1f} s"


def lateness(ledger: Ledger) -> list[tuple[Call, float]]:
    """The calls that had waited for long when their turn ended, and how many seconds later they were answered."""
    found = []
    for call in _waited(ledger):
        changes = ledger.changes[call.turn_id or ""]
        ended = next((one.at for one in changes if one.after in TERMINAL and one.generation == call.generation), None)
        if call.status in TERMINAL and ended is not None and ended - call.at > LONG_SECONDS:
            found.append((call, call.until - ended))
    return found


@rule("I15")
def waits_end_by_event(ledger: Ledger) -> Findings:
    if not ledger.terms.calm:
        return
    times, found = _answer_times(ledger), lateness(ledger)
    allowed = max(LATE_SECONDS, 2 * times[len(times) // 2])
    late = [(call, seconds) for call, seconds in found if seconds > allowed]
    for call, seconds in late if len(late) > max(1, LATE_SHARE * len(found)) else ():
        says = f"was answered {seconds:.2f} s after the end ({len(late)} of {len(found)} so)"
        yield call.turn_id, f"{call.client} waited, and {says}"
