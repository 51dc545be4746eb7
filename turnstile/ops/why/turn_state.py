"""What a turn's own row says of why it waits: it has ended, runs, waits for a time or behind another. Pure.

`ops.why.decision` has the order. A function that returns None has found that its reason does not apply.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from turnstile.ops.terminal.output import describe_error, plural, shortened
from turnstile.ops.why.reason import Code, Reason, wake_command, when
from turnstile.ops.why.wait_facts import SeenErasure, SeenHalt, SeenTurn, SeenWorker, WaitFacts, WaitTerms
from turnstile.turn.error_classes import EXPIRED
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

SHOWN_CHILDREN = 5

AT_REST = Reason(Code.AT_REST, "The session has no open turn; its turns are in the archive.")

# --- the turn has ended, or others come first


def ended(turn: TurnRecord, now: datetime | None) -> Reason:
    """`now`: when the tables were read; None if the turn is in the archive."""
    verb, evidence, commands, archived = "ended", [], [], now is None
    if turn.status is TurnStatus.FAILED:
        verb = "expired" if turn.error_class == EXPIRED else verb
        evidence.append(f"error: {_error_text(turn.error_class, turn.error)}")
        commands += [] if archived else [f"turnstile redrive --turn {turn.id}"]
    if turn.status is TurnStatus.CANCELED:
        evidence.append(f"why it was canceled: {turn.cancel_reason or 'unknown'}")
    if archived:
        evidence.append("it is in the archive, and can't run again")
    headline = f"It has {verb}: {turn.status} {when('at', turn.finished_at, now)}."
    facts = {
        "status": turn.status,
        "since": turn.finished_at,
        "error_class": turn.error_class,
        "error": turn.error,
        "cancel_reason": turn.cancel_reason,
        "archived": archived,
    }
    return Reason(Code.ENDED, headline, evidence, commands, facts)


def erasing(erasure: SeenErasure, tenant_id: str, session_id: str, now: datetime | None) -> Reason:
    """`now`: when the tables were read; None if nobody looked at the time."""
    return Reason(
        Code.ERASING,
        f"The session is being erased: {erasure.requested_by} asked for it {when('at', erasure.since, now)}.",
        [
            "relays go on with it until nothing of before is left; no turn of the session begins until then",
            "it waits for turns that run, for five seconds after the end of each, and for Redis",
        ],
        [f"turnstile erase --tenant {tenant_id} --session {session_id}"],
        asdict(erasure),
    )


def halted(halt: SeenHalt, now: datetime) -> Reason:
    return Reason(
        Code.HALTED,
        f"The FAILED turn {halt.turn_id} has halted the session {when('since', halt.since, now)}.",
        [
            f"its error: {_error_text(halt.error_class, halt.error)}",
            "no turn of the session begins until an operator decides",
        ],
        [f"turnstile retry {halt.turn_id}", f"turnstile skip {halt.turn_id}"],
        asdict(halt),
    )


def behind(head: SeenTurn, of_head: Reason) -> Reason:
    return Reason(
        Code.BEHIND,
        f"It waits for an earlier turn of its session: {head.id}, seq {head.seq}, {head.status}. Of that turn:",
        [of_head.headline, *of_head.evidence],
        of_head.commands,
        {"head": head.as_document(), "reason": of_head.as_document()},
    )


# --- the turn is RUNNING


def running(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    now, worker = facts.at, _worker_of(turn, facts)
    limit = terms.max_crashes.get(turn.queue)
    crashes_left = limit and limit - turn.crashes
    headline = f"It runs in worker {turn.worker_id} {when('since', turn.started_at, now)}."
    evidence = [f"its lease is valid {when('until', turn.lease_until, now)}", _last_heartbeat(worker, now)]
    commands = [f"turnstile cancel {turn.id}"]
    if turn.crashes:
        left = "a few" if crashes_left is None else crashes_left
        died = f"{plural(turn.crashes, 'worker')} died while running it"
        evidence.append(f"{died}; {left} more, and it is FAILED as crash_loop")
    if turn.hand_backs:
        evidence.append(f"hand-backs: {turn.hand_backs}; {MAX_HAND_BACKS} in a row make it FAILED (shutdown_loop)")
    if turn.cancel_requested_at is not None:
        evidence.append(f"it was asked to stop {when('at', turn.cancel_requested_at, now)}")
        commands = []
    block = None
    if worker is not None and worker.alive and worker.blocked_for_seconds > 0:
        since, by = worker.seen_at - timedelta(seconds=worker.blocked_for_seconds), worker.blocked_by
        block = {"since": since, "by": by, "host": worker.host, "pid": worker.pid}
        name = "this turn" if by == turn.id else "an unknown handler" if by is None else f"turn {by}"
        headline = f"It runs in worker {turn.worker_id}, whose event loop {name} blocks {when('since', since, now)}."
        process = f"process {worker.pid} on {worker.host}"
        evidence += [
            "no turn of that worker goes on, and none hears of a cancel, before the block ends",
            f"to end it, stop the worker, {process}: its turns begin again in others",
        ]
        commands = []
    more = {
        "crashes": turn.crashes,
        "hand_backs": turn.hand_backs,
        "crashes_left": crashes_left,
        "block": block,
        "cancel_requested_at": turn.cancel_requested_at,
    }
    return Reason(Code.RUNNING, headline, evidence, commands, _claim_facts(turn, worker) | more)


def lost(turn: SeenTurn, facts: WaitFacts, obstacle: Reason | None) -> Reason:
    """`obstacle`: why no worker takes the turn over."""
    now, worker, marked = facts.at, _worker_of(turn, facts), turn.send_at is not None
    fate = f"worker {turn.worker_id} is lost, or can't renew the lease"
    evidence = [f"it began {when('at', turn.started_at, now)}", _last_heartbeat(worker, now)]
    if marked:
        evidence.append("a relay has marked it as lost: a worker with a free slot takes it over within seconds")
        commands: Sequence[str] = ["turnstile doctor --fix"]
    else:
        wait = "a relay waits until renewals have worked for the length of a lease"
        evidence.append(f"no relay has marked it as lost yet: {wait}")
        commands = ["turnstile relay"]
    if obstacle is not None:
        evidence += [f"no worker can take it over. {obstacle.headline}", *obstacle.evidence]
        commands = obstacle.commands
    more = {"marked": marked, "obstacle": obstacle and obstacle.as_document()}
    headline = f"Its lease ran out {when('at', turn.lease_until, now)}: {fate}."
    return Reason(Code.LOST, headline, evidence, commands, _claim_facts(turn, worker) | more)


# --- the turn may not begin before a time


def joining(turn: SeenTurn, now: datetime) -> Reason | None:
    if not turn.joining:
        return None
    children, left, until = len(turn.joining), turn.open_children, turn.due_since
    facts = {"children": children, "open_children": [asdict(child) for child in left], "until": until}
    of_all = f"{len(left)} of its {plural(children, 'child turn')}"
    headline = f"It waits for {of_all}, at most {when('until', until, now)}."
    if not left:
        ends = "they have ended: a relay notices it within seconds"
        return Reason(Code.JOINING, headline, [ends], ["turnstile relay"], facts)
    evidence = [f"{child.id}, session {child.session_id}: {child.status}" for child in left[:SHOWN_CHILDREN]]
    if len(left) > SHOWN_CHILDREN:
        evidence.append(f"and {len(left) - SHOWN_CHILDREN} more")
    return Reason(Code.JOINING, headline, evidence, [f"turnstile why {left[0].id}"], facts)


def retry(turn: SeenTurn, now: datetime) -> Reason | None:
    last, until = turn.last_attempt, turn.due_since
    if last is None or last.outcome is not AttemptOutcome.RETRIED:
        return None
    return Reason(
        Code.RETRY,
        f"It waits for its retry {when('until', until, now)}.",
        [f"attempt {turn.attempt} failed: {_error_text(last.error_class, last.error)}"],
        [wake_command(turn.id)],
        {"until": until, "attempt": turn.attempt, "error_class": last.error_class, "error": last.error},
    )


def snoozed(turn: SeenTurn, now: datetime) -> Reason | None:
    last, until = turn.last_attempt, turn.due_since
    if last is None or last.outcome is not AttemptOutcome.SNOOZED:
        return None
    return Reason(
        Code.SNOOZED,
        f"Its handler has snoozed it {when('until', until, now)}.",
        [f"its reason: {shortened(last.error)}" if last.error else "it gave no reason"],
        [wake_command(turn.id)],
        {"until": until, "reason": last.error},
    )


def scheduled(turn: SeenTurn, now: datetime) -> Reason:
    headline = f"It is scheduled, and waits {when('until', turn.due_since, now)}."
    return Reason(Code.SCHEDULED, headline, [], [wake_command(turn.id)], {"until": turn.due_since})


# --- what several of them say


def _worker_of(turn: SeenTurn, facts: WaitFacts) -> SeenWorker | None:
    return next((one for one in facts.queue.workers if one.worker_id == turn.worker_id), None)


def _claim_facts(turn: SeenTurn, worker: SeenWorker | None) -> dict[str, Any]:
    return {
        "worker_id": turn.worker_id,
        "since": turn.started_at,
        "lease_until": turn.lease_until,
        "seen_at": worker and worker.seen_at,
    }


def _last_heartbeat(worker: SeenWorker | None, now: datetime) -> str:
    if worker is None:
        return "no heartbeat of its worker is on record"
    return f"its worker's last heartbeat was {when('at', worker.seen_at, now)}"


def _error_text(error_class: str | None, error: str | None) -> str:
    return describe_error(error_class, error) or "unknown"
