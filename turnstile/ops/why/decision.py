"""Decides what a turn waits for: the one reason that has to go first. Pure.

The order of the tests is the order in which one reason hides the next: behind a paused queue it does not matter that no worker is
alive, and without a worker it does not matter whether a wake-up was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import assert_never

from turnstile.ops.why.reason import (
    Behind,
    Ended,
    Halted,
    Joining,
    Locked,
    LockWithoutRow,
    Lost,
    NotSent,
    NoWorker,
    OnItsWay,
    Paused,
    Quarantined,
    Reason,
    Retry,
    Running,
    Scheduled,
    SentInVain,
    SlotsBusy,
    Snoozed,
    TenantFull,
    WorkerBlock,
)
from turnstile.ops.why.wait_facts import LastAttempt, SeenQueue, SeenTurn, SeenWorker, WaitFacts
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus
from turnstile.worker.slots.tenant_fairness import LEAST_DEFER_SECONDS, TenantShare, crowds

MARGIN_SECONDS = 10.0
"""Tolerance: what is late by less is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTerms:
    """The limits after which something counts as late, and the workers' setting. From the operator's settings: they may differ
    from those of the workers."""

    overdue_seconds: float
    """For how long a wake-up may be due before relays count as silent."""
    tenant_share: TenantShare
    max_crashes: Mapping[str, int] = field(default_factory=dict)
    """Of the queues that are declared here."""


def decide(facts: WaitFacts, terms: WaitTerms) -> Reason:
    """What the turn of `facts` waits for."""
    turn, halt = facts.turn, facts.halt
    halts = halt is not None and halt.turn_id == turn.id
    if turn.status.is_terminal and not halts:
        return Ended(
            status=turn.status,
            since=turn.finished_at,
            error_class=turn.error_class,
            error=turn.error,
            cancel_reason=turn.cancel_reason,
        )
    if halt is not None and (halts or turn.status is TurnStatus.PENDING):
        return Halted(turn_id=halt.turn_id, error_class=halt.error_class, error=halt.error, since=halt.since)
    if turn.seq is None:
        return _scheduled(turn, facts, terms)
    head = facts.head or turn
    reason = _of_head(head, facts, terms)
    return reason if head.id == turn.id else Behind(head=head, reason=reason)


def _scheduled(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    if turn.due_since > facts.at:
        return _paused(turn.queue, facts.queue) or Scheduled(until=turn.due_since)
    return (
        _paused(turn.queue, facts.queue)
        or _locked(turn, facts)
        or _not_sent(turn, facts, terms)
        or OnItsWay(since=turn.due_since, next_at=turn.send_at, older=0)
    )


def _of_head(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    match head.status:
        case TurnStatus.RUNNING:
            return _running(head, facts, terms)
        case TurnStatus.PENDING if head.due_since > facts.at:
            # The pause first: a turn that is made due would only wait on.
            return _paused(head.queue, facts.queue) or _waiting_for_a_time(head)
        case TurnStatus.PENDING:
            return _due(head, facts, terms)
        case TurnStatus.SUCCEEDED | TurnStatus.FAILED | TurnStatus.CANCELED:
            raise ValueError("a head is open")
        case _:
            assert_never(head.status)


def _running(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Running | Lost | Locked:
    worker = next((one for one in facts.queue.workers if one.worker_id == head.worker_id), None)
    seen_at = None if worker is None else worker.seen_at
    if head.lease_until is not None and head.lease_until < facts.at:
        return Lost(
            worker_id=head.worker_id,
            since=head.started_at,
            lease_until=head.lease_until,
            seen_at=seen_at,
            marked=head.send_at is not None,
            obstacle=_paused(head.queue, facts.queue)
            or _no_worker(head.queue, facts.queue)
            or _locked(head, facts)
            or _quarantined(head, facts, terms),
        )
    most = terms.max_crashes.get(head.queue)
    return _locked(head, facts) or Running(
        worker_id=head.worker_id,
        since=head.started_at,
        lease_until=head.lease_until,
        seen_at=seen_at,
        crashes=head.crashes,
        hand_backs=head.hand_backs,
        crashes_left=most and most - head.crashes,
        block=_block(worker),
        cancel_requested_at=head.cancel_requested_at,
    )


def _block(worker: SeenWorker | None) -> WorkerBlock | None:
    if worker is None or not worker.alive or worker.blocked_for_seconds <= 0:
        return None
    since = worker.seen_at - timedelta(seconds=worker.blocked_for_seconds)
    return WorkerBlock(since=since, by=worker.blocked_by, host=worker.host, pid=worker.pid)


def _waiting_for_a_time(head: SeenTurn) -> Joining | Retry | Snoozed | Scheduled:
    if head.children:
        return Joining(children=head.children, open_children=head.open_children, until=head.due_since)
    match head.last_attempt:
        case LastAttempt(outcome=AttemptOutcome.RETRIED, error_class=error_class, error=error):
            return Retry(until=head.due_since, attempt=head.attempt, error_class=error_class, error=error)
        case LastAttempt(outcome=AttemptOutcome.SNOOZED, error=reason):
            return Snoozed(until=head.due_since, reason=reason)
        case _:
            return Scheduled(until=head.due_since)


def _due(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    return (
        _paused(head.queue, facts.queue)
        or _no_worker(head.queue, facts.queue)
        or _locked(head, facts)
        or _quarantined(head, facts, terms)
        or _session_locked(facts)
        or _not_sent(head, facts, terms)
        or _tenant_full(head, facts, terms)
        or _slots_busy(head, facts)
        or _sent(head, facts)
    )


def _paused(queue: str, seen: SeenQueue) -> Paused | None:
    pause = seen.pause
    return None if pause is None else Paused(queue=queue, by=pause.by, since=pause.since, reason=pause.reason)


def _takers(seen: SeenQueue) -> list[SeenWorker]:
    return [one for one in seen.workers if one.alive and not one.draining]


def _no_worker(queue: str, seen: SeenQueue) -> NoWorker | None:
    if _takers(seen):
        return None
    draining = sum(one.alive for one in seen.workers)
    return NoWorker(
        queue=queue, draining=draining, last_seen_at=max((one.seen_at for one in seen.workers), default=None)
    )


def _locked(turn: SeenTurn, facts: WaitFacts) -> Locked | None:
    lock = facts.row_lock
    if lock is None:
        return None
    return Locked(
        pid=lock.pid,
        user_name=lock.user_name,
        application=lock.application,
        since=lock.since,
        running_in=turn.worker_id if turn.status is TurnStatus.RUNNING else None,
    )


def _quarantined(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Quarantined | None:
    """The rule of `worker.crash_isolation`, in each worker that takes turns."""
    most = terms.max_crashes.get(head.queue, 0)
    crashes = head.crashes + (head.status is TurnStatus.RUNNING)
    if not 0 < crashes < most:
        return None
    alone = crashes + 1 >= most
    beside = [one.most_crashes for one in _takers(facts.queue)]
    if not all(0 < one < most and (alone or one + 1 >= most) for one in beside):
        return None
    return Quarantined(crashes=crashes, alone=alone)


def _session_locked(facts: WaitFacts) -> LockWithoutRow | None:
    if facts.lock is None:
        return None
    alive = any(one.alive and one.worker_id == facts.lock.worker_id for one in facts.queue.workers)
    return LockWithoutRow(
        key=facts.lock.key,
        worker_id=facts.lock.worker_id,
        seconds_left=facts.lock.seconds_left,
        worker_is_alive=alive,
    )


def _not_sent(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> NotSent | None:
    if turn.send_at is None or facts.at - turn.send_at <= timedelta(seconds=terms.overdue_seconds):
        return None
    alive = sum(one.alive for one in facts.queue.workers)
    return NotSent(queue=turn.queue, since=turn.send_at, placed=turn.seq is not None, workers=alive)


def _tenant_full(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> TenantFull | None:
    workers = _takers(facts.queue)
    # A worker that defers a session sets `sends` to 0. Two wake-ups in vain are no deferral.
    waits = facts.at - head.due_since > timedelta(seconds=LEAST_DEFER_SECONDS) and head.sends < 2
    if not all(_has_its_share(one, terms.tenant_share, waits=waits) for one in workers):
        return None
    running = sum(one.running_of_tenant for one in workers)
    return TenantFull(tenant_id=head.tenant_id, running=running, workers=len(workers), share=terms.tenant_share)


def _has_its_share(worker: SeenWorker, share: TenantShare, *, waits: bool) -> bool:
    """`waits`: the turn has been due for longer than a message takes, and may have been deferred."""
    match share:
        case "all":
            return False
        case "fair":
            alone = worker.running == worker.running_of_tenant
            # Only the worker knows of which tenants it has heard lately. A turn that waits beside a free slot tells of them.
            passed_over = waits and max(worker.running, worker.busy) < worker.slots
            return (not alone or passed_over) and crowds(worker.running_of_tenant, worker.running, worker.slots)
        case int(most):
            return worker.running_of_tenant >= most
        case _:
            assert_never(share)


def _slots_busy(head: SeenTurn, facts: WaitFacts) -> SlotsBusy | None:
    workers = _takers(facts.queue)
    if any(one.busy < one.slots for one in workers):
        return None
    slots = sum(one.slots for one in workers)
    return SlotsBusy(queue=head.queue, workers=len(workers), slots=slots, older=facts.queue.older)


def _sent(head: SeenTurn, facts: WaitFacts) -> SentInVain | OnItsWay:
    if not head.sends:
        return OnItsWay(since=head.due_since, next_at=head.send_at, older=facts.queue.older)
    return SentInVain(
        queue=head.queue, since=head.due_since, sends=head.sends, next_at=head.send_at, older=facts.queue.older
    )
