"""Waits (I11, I15): `Prefer: wait=N` and `?wait=N` show a true end, within their bound, and by event."""

from collections.abc import Iterator, Sequence

from tests.proof.checker.clients import never_was
from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import TERMINAL

ANSWER_SECONDS = 4.0
"""What an answer may take without any wait: a client that does not wait gives it up then. On a machine that is so busy that
its other answers take longer, as long as those."""
HOLD_UP = ("api-", "postgres-", "commit-", "redis-", "sqs-", "send-", "batches-")
"""How the faults begin that may hold up an answer for longer."""
REACH_SECONDS = 2.0
"""So long after its end a fault may still be felt."""

LONG_SECONDS = 2.0
"""After so long a waiting request looks at the table once a second or less often: a response to an event is quicker than that."""
LATE_SECONDS = 0.8
LATE_SHARE = 1 / 3
"""One hint may get lost, or the machine have been busy. As a rule an end is told when it is there."""


def waits(ledger: Ledger) -> Iterator[Violation]:
    waited = [call for call in ledger.evidence.history if call.wait is not None]
    plain = [call for call in ledger.evidence.history if call.wait is None]
    took = sorted(call.until - call.at for call in plain if call.outcome != "unknown") or [0.0]
    allowed = max(ANSWER_SECONDS, took[-1])
    all_answered = not any(call.outcome == "unknown" for call in plain)
    for call in waited:
        if call.op == "submit" and call.outcome == "ok" and call.status in TERMINAL and call.turn_id is not None:
            yield from never_was(ledger, call.turn_id, call.session, [call])
    for call in waited:
        lasted = call.until - call.at
        if call.outcome == "unknown" and ledger.terms.calm and all_answered:
            says = f"{call.client} waited {call.wait:g} s for an answer, and got none in {lasted:.1f} s"
            yield Violation("I15", says, call.turn_id, call.session)
        elif call.outcome == "ok" and lasted > (call.wait or 0.0) + allowed and not _explained(ledger, call):
            says = f"{call.client} asked to wait {call.wait:g} s and was answered after {lasted:.1f} s"
            yield Violation("I15", says, call.turn_id, call.session)
    if ledger.terms.calm:
        yield from _by_resend(ledger, waited, max(LATE_SECONDS, 2 * took[len(took) // 2]))


def lateness(ledger: Ledger, waited: Sequence[Call]) -> list[tuple[Call, float]]:
    """The calls that had waited for long when their turn ended, and how many seconds later they were told."""
    found = []
    for call in waited:
        changes = ledger.changes.get(call.turn_id or "", ())
        ended = next((one.at for one in changes if one.after in TERMINAL and one.generation == call.generation), None)
        if call.status in TERMINAL and ended is not None and ended - call.at > LONG_SECONDS:
            found.append((call, call.until - ended))
    return found


def _by_resend(ledger: Ledger, waited: Sequence[Call], allowed: float) -> Iterator[Violation]:
    found = lateness(ledger, waited)
    late = [(call, seconds) for call, seconds in found if seconds > allowed]
    if len(late) > 1 and len(late) > LATE_SHARE * len(found):
        for call, seconds in late:
            says = (
                f"{call.client} waited, and was told of the end {seconds:.2f} s late ({len(late)} of {len(found)} so)"
            )
            yield Violation("I15", says, call.turn_id, call.session)


def _explained(ledger: Ledger, call: Call) -> bool:
    return any(
        fault.kind.startswith(HOLD_UP) and fault.at <= call.until and call.at <= fault.until + REACH_SECONDS
        for fault in ledger.evidence.faults
    )
