"""From what was seen to what is wrong. Pure: rows, locks, letters, attributes and clocks are arguments."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from turnstile.ops.dead_letters.verdict import ReadLetter, Verdict
from turnstile.ops.doctor.findings import Finding, Severity
from turnstile.ops.terminal.exit_codes import ExitCode

if TYPE_CHECKING:
    from turnstile.config.queue_settings import QueueSettings
    from turnstile.doctor.environment import SeenWorker
    from turnstile.doctor.symptoms import SickTurn
    from turnstile.worker.lock_inspection import HeldLock

CLOCK_SKEW_SECONDS = 2.0
LONG_RETENTION_SECONDS = 14 * 86_400
DEFAULT_RETENTION_SECONDS = 4 * 86_400
"""SQS's own, where a queue says nothing."""
HASTY_RECEIVES = 100
"""A busy session may turn the same wake-up away many times; a healthy one never so often."""

_PLAIN_LETTERS = {
    Verdict.MOVED_BY_SQS: "dead-letter-moved-by-sqs",
    Verdict.MALFORMED: "dead-letter-malformed",
    Verdict.UNKNOWN_TURN: "dead-letter-of-nobody",
}


def about_turn(code: str, turn: "SickTurn", detail: str, mark: object = "") -> Finding:
    """A finding about a turn; another claim or redrive of it makes it another finding."""
    return Finding(
        code=code,
        subject=str(turn.id),
        detail=detail,
        mark=f"{turn.status}/{turn.generation}/{turn.fence}/{mark}",
        since=turn.since,
        tenant_id=turn.tenant_id,
        session_id=turn.session_id,
        turn_id=str(turn.id),
        queue=turn.queue,
        turn=turn,
    )


def judge_turn(symptom: str, turn: "SickTurn", declared: Mapping[str, "QueueSettings"]) -> Finding:
    """What a turn with a symptom suffers from."""
    match symptom:
        case "running-past-lease":
            # A lease that was renewed between two looks is no lease that ran out.
            return about_turn(symptom, turn, f"worker {turn.worker_id}, attempt {turn.attempt}", turn.lease_until)
        case "send-overdue":
            return about_turn(symptom, turn, f"{turn.status}, send_at has passed", turn.send_at)
        case "session-halted":
            return about_turn(symptom, turn, f"{turn.error_class}, {turn.waiting} turns wait behind it")
        case "session-stuck":
            return about_turn(symptom, turn, f"attempt {turn.attempt}, queue {turn.queue}")
        case "attempts-over-budget":
            return about_turn(symptom, turn, _budget(turn, declared.get(turn.queue)))
        case "replies-wrong":
            if turn.status != "SUCCEEDED":
                return about_turn("reply-unearned", turn, f"{turn.status}, {turn.replies} replies")
            return about_turn("reply-doubled" if turn.replies else "reply-missing", turn, f"{turn.replies} replies")
        case _:
            return about_turn(symptom, turn, f"error_class {turn.error_class}" if turn.error_class else "")


def _budget(turn: "SickTurn", queue: "QueueSettings | None") -> str:
    spent = f"attempt {turn.attempt}, failures {turn.failures}, crashes {turn.crashes}"
    failures = "any" if turn.max_attempts is None else turn.max_attempts
    crashes = "any" if queue is None else queue.max_crashes
    return f"{turn.status}, {spent}; of {failures} failures and {crashes} crashes"


def judge_locks(
    locks: Iterable["HeldLock"], running: Collection[tuple[str, str]], living: Collection[str]
) -> list[Finding]:
    """Locks that no living worker holds for a running turn; `living` are the workers seen lately."""
    found = []
    for lock in locks:
        gone = (lock.tenant_id, lock.session_id) not in running and lock.worker_id not in living
        if not gone and lock.ttl_seconds is not None:
            continue
        if lock.ttl_seconds is not None:
            code, detail = "lock-without-row", f"expires in {lock.ttl_seconds:.0f} s"
        else:
            code, detail = ("lock-left-for-ever" if gone else "lock-for-ever"), "no time to live"
        found.append(
            Finding(
                code=code,
                subject=lock.key,
                detail=f"worker {lock.worker_id or 'unknown'}, {detail}",
                mark=lock.token,
                tenant_id=lock.tenant_id,
                session_id=lock.session_id,
                lock=lock,
            )
        )
    return found


def judge_workers(workers: Iterable["SeenWorker"], silent_seconds: float) -> list[Finding]:
    """Workers that stopped without withdrawing."""
    return [
        Finding(
            code="worker-silent",
            subject=worker.worker_id,
            detail=f"queue {worker.queue}, silent for {worker.silent_seconds:.0f} s, {worker.busy} turns in hand",
            mark=str(worker.seen_at),
            since=worker.seen_at,
            queue=worker.queue,
            worker=worker,
        )
        for worker in workers
        if worker.silent_seconds > silent_seconds
    ]


def judge_queue(queue: str, source: Mapping[str, str], dlq: Mapping[str, str]) -> list[Finding]:
    """Oddities of a queue and its DLQ, by the attributes that SQS reports."""
    found = []
    policy = _policy(source.get("RedrivePolicy", ""))
    target, receives = policy.get("deadLetterTargetArn"), str(policy.get("maxReceiveCount", ""))
    if target is None:
        found.append(Finding(code="redrive-policy-missing", subject=queue, queue=queue))
    elif "QueueArn" in dlq and target != dlq["QueueArn"]:
        found.append(Finding(code="redrive-policy-elsewhere", subject=queue, queue=queue, detail=str(target)))
    if receives.isdecimal() and int(receives) < HASTY_RECEIVES:
        detail = f"maxReceiveCount {receives}"
        found.append(Finding(code="redrive-policy-hasty", subject=queue, queue=queue, detail=detail))
    if retention_seconds(dlq) < LONG_RETENTION_SECONDS:
        detail = f"{retention_seconds(dlq) / 86_400:g} days"
        found.append(Finding(code="dlq-retention-short", subject=queue, queue=queue, detail=detail))
    return found


def retention_seconds(dlq: Mapping[str, str]) -> int:
    """How long a queue keeps its messages, by its attributes."""
    return int(dlq.get("MessageRetentionPeriod", DEFAULT_RETENTION_SECONDS))


def _policy(text: str) -> dict[str, object]:
    try:
        policy = json.loads(text)
    except ValueError:
        return {}
    return policy if isinstance(policy, dict) else {}


def judge_letter(queue: str, letter: ReadLetter, verdict: Verdict, status: str | None) -> Finding | None:
    """A message on the DLQ of `queue`; None if it is where it belongs. `status` is its row's."""
    if verdict is Verdict.STILL_DEAD:
        return None
    if verdict is Verdict.OUTLIVED:
        code = "dead-letter-of-succeeded" if status == "SUCCEEDED" else "dead-letter-outlived"
    else:
        code = _PLAIN_LETTERS[verdict]
    wake_up = letter.wake_up
    return Finding(
        code=code,
        subject=letter.message.message_id,
        detail=f"turn {wake_up.turn_id}, {status}" if wake_up and status else "",
        queue=queue,
        tenant_id=wake_up.tenant_id if wake_up else None,
        session_id=wake_up.session_id if wake_up else None,
        turn_id=str(wake_up.turn_id) if wake_up else None,
    )


def judge_clock(before: datetime, theirs: datetime, after: datetime) -> list[Finding]:
    """The database's clock, asked between two looks at ours."""
    # It was read somewhere between: only what lies outside is a difference.
    ahead = max((theirs - after).total_seconds(), (before - theirs).total_seconds())
    if ahead <= CLOCK_SKEW_SECONDS:
        return []
    way = "behind" if theirs > after else "ahead of"
    detail = f"this machine is {ahead:.1f} s {way} the database"
    return [Finding(code="clock-skew", subject="clock", detail=detail)]


def judge_fences(seen: int, drawn: int) -> list[Finding]:
    """The highest fence that Redis has seen, and then the last that Postgres has given out."""
    if seen <= drawn:
        return []
    detail = f"Redis has seen {seen}, Postgres is at {drawn}"
    return [Finding(code="fences-behind", subject="fences", detail=detail, fence=seen)]


def is_blind(findings: Iterable[Finding]) -> bool:
    """Whether a look with these findings could not see everything."""
    return any(finding.kind.blinding for finding in findings)


def seen_twice(first: Sequence[Finding], second: Sequence[Finding]) -> list[Finding]:
    """What still holds at the second look: of what may be in motion, only what has not moved.

    What hid something from the second look is never in motion: without it, all that was not seen would pass for well.
    """
    before = {finding.key for finding in first}
    return [
        finding for finding in second if finding.kind.blinding or not finding.kind.transient or finding.key in before
    ]


def without_doubles(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for a subject: that a session is stuck goes without saying where its head has an illness of its own.

    Worst first.
    """
    ill = {finding.turn_id for finding in findings if finding.turn is not None and finding.code != "session-stuck"}
    once = {
        finding.key: finding for finding in findings if finding.code != "session-stuck" or finding.turn_id not in ill
    }
    order = list(Severity)
    return sorted(once.values(), key=lambda finding: (order.index(finding.kind.severity), finding.code))


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """UNAVAILABLE if not all could be looked at, FINDINGS if something is wrong and was not repaired, else OK."""
    left = [one for one in findings if one.kind.severity is not Severity.INFO and not one.fixed]
    if is_blind(left):
        return ExitCode.UNAVAILABLE
    return ExitCode.FINDINGS if left else ExitCode.OK
