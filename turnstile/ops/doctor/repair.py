"""`turnstile doctor --fix`: remedies that may be repeated. They never change a status, an attempt or a reply."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

import psycopg

from turnstile.audit.event import AuditKind
from turnstile.backends.redis.operator_client import RedisUnreachableError
from turnstile.errors import QueueUnavailableError
from turnstile.ops.dead_letters.sweep import sweep
from turnstile.ops.doctor.check import Remedy
from turnstile.ops.doctor.read_database import wake
from turnstile.ops.doctor.run_checks import MOST_STREAMS, DoctorFinding, Findings
from turnstile.ops.doctor.stream_inspection import highest_fence
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.terminal.output import plural, say
from turnstile.statements.advance_fences import advance_beyond


def plan(findings: Findings) -> Counter[str]:
    """The number of findings for each remedy."""
    return Counter(one.check.remedy.value for one in findings if one.check.remedy is not None)


async def repair(operator: Operator, findings: Findings) -> Findings:
    """The findings, with `fixed` set if a remedy was tried.

    A turn that has changed since the check, or that no relay has marked as lost, is left alone and counts as not repaired.
    Raises DatabaseUnavailableError.
    """
    await operator.audit(AuditKind.FINDINGS_REPAIRED, "findings of the doctor", counts=plan(findings))
    lost = [UUID(one.turn_id) for one in findings if one.check.remedy is Remedy.WAKE and one.turn_id]
    woken = await wake(operator.database, lost)
    return [await _repair(operator, one, woken) for one in findings]


async def _repair(operator: Operator, one: DoctorFinding, woken: set[UUID]) -> DoctorFinding:
    match one.check.remedy:
        case None:
            return one
        case Remedy.WAKE:
            return replace(one, fixed=one.turn_id is not None and UUID(one.turn_id) in woken)
        case Remedy.SWEEP:
            return replace(one, fixed=await _sweep(operator, one.subject))
        case Remedy.ADVANCE:
            return replace(one, fixed=await _advance(operator))


async def _advance(operator: Operator) -> bool:
    try:
        await advance_beyond(operator.database, await highest_fence(operator.settings, MOST_STREAMS))
    except (RedisUnreachableError, psycopg.errors.InvalidParameterValue) as error:
        say(f"the fences were not advanced: {str(error).partition(chr(10))[0]}")
        return False
    return True


async def _sweep(operator: Operator, queue: str) -> bool:
    try:
        unswept = (await sweep(operator.database, operator.queues, queue)).unswept
    except QueueUnavailableError as error:
        say(f"queue {queue} was not swept: {error}")
        return False
    if unswept:
        say(f"SQS did not delete {plural(unswept, 'dead letter')} of queue {queue}")
    return not unswept
