"""`turnstile doctor --fix`: remedies that may be repeated. They never change a status, an attempt or a reply."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

from turnstile.config.settings import Settings
from turnstile.doctor.checks import Remedy
from turnstile.doctor.database import wake
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.sweep import sweep
from turnstile.ops.doctor.look import DoctorFinding, Findings
from turnstile.ops.terminal.operator_access import operator_database


def plan(findings: Findings) -> Counter[str]:
    """The number of findings for each remedy."""
    return Counter(one.check.remedy.value for one in findings if one.check.remedy is not None)


async def repair(settings: Settings, findings: Findings) -> tuple[Findings, list[str]]:
    """The findings, with `fixed` set if a remedy was tried, and the failures of SQS as text.

    A turn that has changed since the check is left alone and counts as not repaired. Raises DatabaseUnavailableError.
    """
    fixed: set[DoctorFinding] = set()
    failures: list[str] = []
    queues = MessageQueues(settings)
    try:
        async with operator_database(settings) as database:
            lost = {UUID(one.turn_id): one for one in findings if one.check.remedy is Remedy.WAKE and one.turn_id}
            fixed |= {lost[turn_id] for turn_id in await wake(database, list(lost))}
            for one in findings:
                if one.check.remedy is Remedy.SWEEP:
                    try:
                        unswept = (await sweep(database, queues, one.subject)).unswept
                    except QueueUnavailableError as error:
                        failures.append(f"queue {one.subject} was not swept: {error}")
                        continue
                    if unswept:
                        failures.append(f"SQS did not delete {unswept} dead letters of queue {one.subject}")
                    else:
                        fixed.add(one)
    finally:
        await queues.close()
    return [one if one.check.remedy is None else replace(one, fixed=one in fixed) for one in findings], failures
