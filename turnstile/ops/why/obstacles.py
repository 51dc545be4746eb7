"""What keeps a turn that could begin: its queue, its workers, locks, relays, slots. Pure.

`ops.why.decision` has the order. A function that returns None has found that its reason does not apply.
"""

from dataclasses import asdict
from datetime import timedelta
from typing import assert_never

from turnstile.ops.terminal.output import plural, short_duration, shortened
from turnstile.ops.why.reason import Code, Reason, wake_command, when
from turnstile.ops.why.wait_facts import MAX_OLDER_TURNS, SeenTurn, SeenWorker, WaitFacts, WaitTerms
from turnstile.turn.status import TurnStatus
from turnstile.worker.slots.tenant_fairness import LEAST_DEFER_SECONDS, TenantShare, crowds


def paused(turn: SeenTurn, facts: WaitFacts) -> Reason | None:
    pause = facts.queue.pause
    if pause is None:
        return None
    return Reason(
        Code.PAUSED,
        f"{pause.by} has paused its queue {turn.queue} {when('since', pause.since, facts.at)}.",
        [f"reason: {shortened(pause.reason)}"] if pause.reason else [],
        [f"turnstile queues resume {turn.queue}"],
        {"queue": turn.queue, **asdict(pause)},
    )


def no_worker(turn: SeenTurn, facts: WaitFacts) -> Reason | None:
    if _claimers(facts):
        return None
    draining = sum(one.alive for one in facts.queue.workers)
    last = max((one.seen_at for one in facts.queue.workers), default=None)
    evidence = [
        f"the last heartbeat was {when('at', last, facts.at)}" if last else "there was no heartbeat within a day"
    ]
    if draining:
        evidence.append(f"workers that are draining: {draining}; they end their turns and begin no other")
    return Reason(
        Code.NO_WORKER,
        f"No worker of its queue {turn.queue} takes turns.",
        evidence,
        [f"turnstile worker --queue {turn.queue}"],
        {"queue": turn.queue, "draining": draining, "last_seen_at": last},
    )


def locked(turn: SeenTurn, facts: WaitFacts) -> Reason | None:
    lock = facts.row_lock
    if lock is None:
        return None
    running_in = turn.worker_id if turn.status is TurnStatus.RUNNING else None
    effect = "no worker can begin it" if running_in is None else f"worker {running_in} can't end it"
    who = f"user {lock.user_name}, application {lock.application or 'without a name'}"
    since = (
        f"open {when('since', lock.since, facts.at)}" if lock.since else "only its role and pg_monitor see since when"
    )
    return Reason(
        Code.LOCKED,
        f"Another transaction keeps its row locked, or its session's: {effect}.",
        [f"process {lock.pid} of Postgres: {who}, {since}"],
        [f'psql "$OWNER_URL" -c "SELECT pg_terminate_backend({lock.pid})"'],
        {**asdict(lock), "running_in": running_in},
    )


def quarantined(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason | None:
    """The rule of `worker.crash_isolation`, in each worker that claims turns."""
    limit = terms.max_crashes.get(turn.queue, 0)
    # If the turn is RUNNING, its lease ran out: that is one more crash.
    crashes = turn.crashes + (turn.status is TurnStatus.RUNNING)
    if not 0 < crashes < limit:
        return None
    alone = crashes + 1 >= limit
    others = [one.most_crashes for one in _claimers(facts)]
    if not all(0 < other < limit and (alone or other + 1 >= limit) for other in others):
        return None
    headline = (
        "It waits its turn, to run alone: a turn with a crash on record runs in each worker of its queue."
        if alone
        else "It waits for the end of turns that run alone, one in each worker: each is one crash short of its limit."
    )
    evidence = [f"crashes on its record: {crashes}"]
    return Reason(Code.QUARANTINED, headline, evidence, [], {"crashes": crashes, "alone": alone})


def lock_without_row(facts: WaitFacts) -> Reason | None:
    lock = facts.lock
    if lock is None:
        return None
    alive = any(one.alive and one.worker_id == lock.worker_id for one in facts.queue.workers)
    fate = (
        "the worker is alive: it claims the turn in a moment, or releases the lock"
        if alive
        else "the worker is not alive: the lock expires, and a later wake-up brings another worker"
    )
    return Reason(
        Code.LOCK_WITHOUT_ROW,
        f"Worker {lock.worker_id} has the session's lock, and no turn of the session is RUNNING.",
        [f"the lock {lock.key} expires in {short_duration(lock.seconds_left)}", fate],
        [],
        {**asdict(lock), "worker_is_alive": alive},
    )


def not_sent(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason | None:
    due, placed = turn.send_at, turn.seq is not None
    if due is None or facts.at - due <= timedelta(seconds=terms.overdue_seconds):
        return None
    alive = sum(one.alive for one in facts.queue.workers)
    act = "sent its wake-up" if placed else "given it its place in the session"
    return Reason(
        Code.NOT_SENT,
        f"It is due, and no relay has {act} {when('since', due, facts.at)}.",
        [
            f"workers of its queue {turn.queue} that are alive: {alive}, each with a relay unless it has --no-relay",
            "the log of a relay that SQS refuses says relay.not_sent",
        ],
        ["turnstile relay", wake_command(turn.id)] if placed else ["turnstile relay"],
        {"queue": turn.queue, "since": due, "placed": placed, "workers": alive},
    )


def limited(facts: WaitFacts) -> Reason | None:
    limit = next((one for one in facts.limits if one.refuses), None)
    if limit is None:
        return None
    if limit.paused_seconds > 0:
        state = f"is paused for {short_duration(limit.paused_seconds)}: its provider asked for that"
    elif limit.slot_seconds > 0:
        state = f"has tokens for it in {short_duration(limit.slot_seconds)}"
    else:
        state = f"has no free place: {limit.running} of {limit.concurrency} are in use"
    return Reason(
        Code.LIMITED,
        f"The limit {limit.limit} of {shortened(limit.value)} {state}.",
        [f"sessions that wait for it: {limit.waiting}; the one that has waited longest is next"],
        ["turnstile limits list"],
        asdict(limit),
    )


def tenant_full(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason | None:
    workers, share = _claimers(facts), terms.tenant_share
    # A worker that defers a session sets `sends` to 0. Two wake-ups that brought no worker are not a deferral.
    waits = facts.at - turn.due_since > timedelta(seconds=LEAST_DEFER_SECONDS) and turn.sends < 2
    if not all(_has_its_share(one, share, waits=waits) for one in workers):
        return None
    number = sum(one.running_of_tenant for one in workers)
    evidence = [
        f"turns of this tenant that run: {number}, in {plural(len(workers), 'worker')}",
        f"TURNSTILE_TENANT_SLOTS is {share} for this command; the workers may have another value",
    ]
    if share == "fair":
        evidence.append("for a minute after another tenant's turn, a worker keeps slots free")
    return Reason(
        Code.TENANT_FULL,
        f"Its tenant {turn.tenant_id} uses its whole share of the slots in each worker.",
        evidence,
        [f"turnstile list --status running --tenant {turn.tenant_id}"],
        {"tenant_id": turn.tenant_id, "running": number, "workers": len(workers), "share": share},
    )


def slots_busy(turn: SeenTurn, facts: WaitFacts) -> Reason | None:
    workers, older = _claimers(facts), facts.queue.older_turn_count
    if any(one.busy < one.slots for one in workers):
        return None
    slots = sum(one.slots for one in workers)
    return Reason(
        Code.SLOTS_BUSY,
        f"All slots of its queue's workers are busy: {plural(slots, 'slot')} in {plural(len(workers), 'worker')}.",
        [_older_turns_line(older)],
        [f"turnstile worker --queue {turn.queue}", f"turnstile list --status running --queue {turn.queue}"],
        {"queue": turn.queue, "workers": len(workers), "slots": slots, "older": older},
    )


def sent_in_vain(turn: SeenTurn, facts: WaitFacts) -> Reason | None:
    due, older = turn.due_since, facts.queue.older_turn_count
    if not turn.sends:
        return None
    return Reason(
        Code.SENT_IN_VAIN,
        f"It has been due {when('since', due, facts.at)}, and {plural(turn.sends, 'wake-up')} brought no worker.",
        [f"a relay sends again {when('at', turn.send_at, facts.at)}", _older_turns_line(older)],
        [wake_command(turn.id)],
        {"queue": turn.queue, "since": due, "sends": turn.sends, "next_at": turn.send_at, "older": older},
    )


def not_begun(turn: SeenTurn, facts: WaitFacts) -> Reason:
    due, send_at, now = turn.due_since, turn.send_at, facts.at
    # A turn without a place in its session has none among the turns of its queue either.
    older = 0 if turn.seq is None else facts.queue.older_turn_count
    wake_up = (
        f"its wake-up has been owed {when('since', send_at, now)}"
        if send_at is not None and send_at <= now
        else f"its wake-up was sent, unless SQS refused it: a relay sends it again {when('at', send_at, now)}"
    )
    return Reason(
        Code.NOT_BEGUN,
        f"It has been due {when('since', due, now)}, and no worker has begun it yet.",
        [wake_up, _older_turns_line(older)],
        [wake_command(turn.id)],
        {"since": due, "next_at": send_at, "older": older},
    )


def _claimers(facts: WaitFacts) -> list[SeenWorker]:
    return [one for one in facts.queue.workers if one.alive and not one.draining]


def _has_its_share(worker: SeenWorker, share: TenantShare, *, waits: bool) -> bool:
    """`waits`: the turn has been due for longer than a message takes, and may have been deferred."""
    match share:
        case "all":
            return False
        case "fair":
            alone = worker.running == worker.running_of_tenant
            # Only the worker knows of which tenants it has recently had turns. If the turn waits although a slot is
            # free, there are some.
            passed_over = waits and max(worker.running, worker.busy) < worker.slots
            return (not alone or passed_over) and crowds(worker.running_of_tenant, worker.running, worker.slots)
        case int(limit):
            return worker.running_of_tenant >= limit
        case _:
            assert_never(share)


def _older_turns_line(count: int) -> str:
    number = f"{MAX_OLDER_TURNS} or more" if count >= MAX_OLDER_TURNS else count
    return f"turns of its queue that have been due for longer: {number}"
