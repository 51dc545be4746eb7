"""Says why a turn waits: the reason, its evidence, and the commands that would move the turn. Pure."""

from datetime import datetime
from typing import NamedTuple, assert_never

from turnstile.ops.terminal.output import describe_error, many, short_duration, short_time, shortened
from turnstile.ops.why.clock import Clock
from turnstile.ops.why.reason import (
    Answer,
    AtRest,
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
)
from turnstile.ops.why.wait_facts import MOST_OLDER, SeenTurn
from turnstile.turn.error_classes import EXPIRED
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.status import TurnStatus

SHOWN_CHILDREN = 5


class Words(NamedTuple):
    """A reason in words. `commands`: each of them would move the turn; none: it need not be moved, or no command can."""

    headline: str
    evidence: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def as_lines(answer: Answer) -> list[str]:
    """The whole answer for people: the turn, what it waits for with the evidence, and the commands."""
    words = describe(answer)
    evidence = list(words.evidence)
    if answer.expired_at is not None:
        evidence.append(f"its time was over at {short_time(answer.expired_at)}: it still begins, but no retry follows")
    if answer.redis_away is not None:
        evidence.append(f"Redis does not respond, so the session's lock was not looked at: {answer.redis_away}")
    if answer.foreign_lock is not None:
        evidence.append(
            f"no worker has set the session's lock {answer.foreign_lock}: workers claim without it. Delete it"
        )
    return [_subject(answer), words.headline, *(f"  {line}" for line in evidence), *command_lines(answer)]


def command_lines(answer: Answer) -> list[str]:
    """The commands, each on a line of its own, so that it can be copied."""
    goal = "to stop it" if isinstance(answer.reason, Running) else "to move it"
    return [f"{'or:' if place else f'{goal}:':<11} {one}" for place, one in enumerate(describe(answer).commands)]


def describe(answer: Answer) -> Words:
    """The reason of an answer in words."""
    return _describe(answer.reason, answer.turn, Clock(answer.at))


def _subject(answer: Answer) -> str:
    session = f"session {answer.session_id} of tenant {answer.tenant_id}"
    turn, at = answer.turn, answer.at
    if turn is None or at is None:
        return session if answer.turn_id is None else f"turn {answer.turn_id}, {session}"
    place = "no seq yet" if turn.seq is None else f"seq {turn.seq}"
    waits = turn.status is TurnStatus.PENDING and turn.first_started_at is None and turn.queued_at < at
    waited = f", has waited for {short_duration((at - turn.queued_at).total_seconds())}" if waits else ""
    return f"turn {turn.id}, {session}, {place}, queue {turn.queue}: {turn.status}{waited}"


def _describe(reason: Reason, turn: SeenTurn | None, clock: Clock) -> Words:
    name = "TURN" if turn is None else str(turn.id)
    wake = (f"turnstile wake {name}",)
    match reason:
        case Ended():
            return _ended(reason, name, clock)
        case AtRest():
            return Words("The session has no open turn; its turns are in the archive.")
        case Behind(head=head, reason=of_head):
            inner = _describe(of_head, head, clock)
            headline = (
                f"It waits for an earlier turn of its session: {head.id}, seq {head.seq}, {head.status}. Of that turn:"
            )
            return Words(headline, (inner.headline, *inner.evidence), inner.commands)
        case Halted(turn_id=halting, error_class=error_class, error=error, since=since):
            failed = f"its error: {describe_error(error_class, error) or 'unknown'}"
            return Words(
                f"The FAILED turn {halting} has halted the session {clock.since(since)}.",
                (failed, "no turn of the session begins until an operator decides"),
                (f"turnstile retry {halting}", f"turnstile skip {halting}"),
            )
        case Running():
            return _running(reason, turn, name, clock)
        case Lost():
            return _lost(reason, clock)
        case Scheduled(until=until):
            return Words(f"It is scheduled, and waits {clock.until(until)}.", (), wake)
        case Retry(until=until, attempt=attempt, error_class=error_class, error=error):
            failed = f"attempt {attempt} failed: {describe_error(error_class, error) or 'unknown'}"
            return Words(f"It waits for its retry {clock.until(until)}.", (failed,), wake)
        case Snoozed(until=until, reason=why):
            reason_given = f"its reason: {shortened(why)}" if why else "it gave no reason"
            return Words(f"Its handler has snoozed it {clock.until(until)}.", (reason_given,), wake)
        case Joining():
            return _joining(reason, clock)
        case Paused(queue=queue, by=by, since=since, reason=why):
            said = (f"reason: {shortened(why)}",) if why else ()
            return Words(
                f"{by} has paused its queue {queue} {clock.since(since)}.",
                said,
                (f"turnstile queues resume {queue}",),
            )
        case NoWorker():
            return _no_worker(reason, clock)
        case Locked():
            return _locked(reason, clock)
        case Quarantined():
            return _quarantined(reason)
        case LockWithoutRow():
            return _session_locked(reason)
        case NotSent():
            return _not_sent(reason, wake, clock)
        case TenantFull(tenant_id=tenant_id, running=running, workers=workers, share=share):
            return Words(
                f"Its tenant {tenant_id} uses its whole share of the slots in each worker.",
                (
                    f"turns of this tenant that run: {running}, in {many(workers, 'worker')}",
                    f"TURNSTILE_TENANT_SLOTS is {share} for this command; the workers may have another value",
                    *(
                        ("for a minute after another tenant's turn, a worker keeps slots free",)
                        if share == "fair"
                        else ()
                    ),
                ),
                (f"turnstile list --status running --tenant {tenant_id}",),
            )
        case SlotsBusy(queue=queue, workers=workers, slots=slots, older=older):
            busy = f"{many(slots, 'slot')} in {many(workers, 'worker')}"
            commands = (f"turnstile worker --queue {queue}", f"turnstile list --status running --queue {queue}")
            return Words(f"All slots of its queue's workers are busy: {busy}.", (_older(older),), commands)
        case SentInVain(since=since, sends=sends, next_at=next_at, older=older):
            headline = f"It has been due {clock.since(since)}, and {many(sends, 'wake-up')} brought no worker."
            return Words(headline, (f"a relay sends again {clock.at(next_at)}", _older(older)), wake)
        case OnItsWay(since=since, next_at=next_at, older=older):
            headline = f"It has been due {clock.since(since)}, and no worker has begun it yet."
            sent = (
                f"its wake-up has been owed {clock.since(next_at)}"
                if clock.has_come(next_at)
                else f"its wake-up was sent, unless SQS refused it: a relay sends it again {clock.at(next_at)}"
            )
            return Words(headline, (sent, _older(older)), wake)
        case _:
            assert_never(reason)


def _older(older: int) -> str:
    number = f"{MOST_OLDER} or more" if older >= MOST_OLDER else older
    return f"turns of its queue that have been due for longer: {number}"


def _ended(reason: Ended, name: str, clock: Clock) -> Words:
    where = ("it is in the archive, and can't run again",) if reason.archived else ()
    match reason.status:
        case TurnStatus.FAILED:
            verb = "expired" if reason.error_class == EXPIRED else "ended"
            evidence = (f"error: {describe_error(reason.error_class, reason.error) or 'unknown'}", *where)
            redrive = () if reason.archived else (f"turnstile redrive --turn {name}",)
            return Words(f"It has {verb}: FAILED {clock.at(reason.since)}.", evidence, redrive)
        case TurnStatus.CANCELED:
            evidence = (f"why it was canceled: {reason.cancel_reason or 'unknown'}", *where)
            return Words(f"It has ended: CANCELED {clock.at(reason.since)}.", evidence)
        case status:
            return Words(f"It has ended: {status} {clock.at(reason.since)}.", where)


def _running(reason: Running, turn: SeenTurn | None, name: str, clock: Clock) -> Words:
    headline = f"It runs in worker {reason.worker_id} {clock.since(reason.since)}."
    evidence = [f"its lease is valid {clock.until(reason.lease_until)}", _seen(reason.seen_at, clock)]
    if reason.crashes:
        left = "a few" if reason.crashes_left is None else reason.crashes_left
        evidence.append(
            f"{many(reason.crashes, 'worker')} died while running it; {left} more, and it is FAILED as crash_loop"
        )
    if reason.hand_backs:
        evidence.append(f"hand-backs: {reason.hand_backs}; {MAX_HAND_BACKS} in a row make it FAILED (shutdown_loop)")
    if reason.cancel_requested_at is not None:
        evidence.append(f"it was asked to stop {clock.at(reason.cancel_requested_at)}")
    if (block := reason.block) is not None:
        itself = turn is not None and block.by == turn.id
        whose = "this turn" if itself else "an unknown handler" if block.by is None else f"turn {block.by}"
        headline = f"It runs in worker {reason.worker_id}, whose event loop {whose} blocks {clock.since(block.since)}."
        evidence.append("no turn of that worker goes on, and none hears of a cancel, before the block ends")
        evidence.append(
            f"to end it, stop the worker, process {block.pid} on {block.host}: its turns begin again in others"
        )
    cancel = () if reason.cancel_requested_at or block else (f"turnstile cancel {name}",)
    return Words(headline, tuple(evidence), cancel)


def _seen(seen_at: datetime | None, clock: Clock) -> str:
    if seen_at is None:
        return "no heartbeat of its worker is on record"
    return f"its worker's last heartbeat was {clock.at(seen_at)}"


def _lost(reason: Lost, clock: Clock) -> Words:
    headline = f"Its lease ran out {clock.at(reason.lease_until)}: worker {reason.worker_id} is lost, or can't renew the lease."
    mark = (
        "a relay has marked it as lost: a worker with a free slot takes it over within seconds"
        if reason.marked
        else "no relay has marked it as lost yet: a relay waits until renewals have worked for the length of a lease"
    )
    evidence = (f"it began {clock.at(reason.since)}", _seen(reason.seen_at, clock), mark)
    match reason.obstacle:
        case None:
            return Words(headline, evidence, ("turnstile doctor --fix",) if reason.marked else ("turnstile relay",))
        case obstacle:
            inner = _describe(obstacle, None, clock)
            return Words(
                headline, (*evidence, f"no worker can take it over. {inner.headline}", *inner.evidence), inner.commands
            )


def _joining(reason: Joining, clock: Clock) -> Words:
    left = reason.open_children
    headline = (
        f"It waits for {len(left)} of its {many(reason.children, 'child turn')}, at most {clock.until(reason.until)}."
    )
    if not left:
        return Words(headline, ("they have ended: a relay notices it within seconds",), ("turnstile relay",))
    shown = tuple(f"{child.id}, session {child.session_id}: {child.status}" for child in left[:SHOWN_CHILDREN])
    more = (f"and {len(left) - SHOWN_CHILDREN} more",) if len(left) > SHOWN_CHILDREN else ()
    return Words(headline, (*shown, *more), (f"turnstile why {left[0].id}",))


def _no_worker(reason: NoWorker, clock: Clock) -> Words:
    last = reason.last_seen_at
    evidence = [f"the last heartbeat was {clock.at(last)}" if last else "there was no heartbeat within a day"]
    if reason.draining:
        evidence.append(f"workers that are draining: {reason.draining}; they end their turns and begin no other")
    start = (f"turnstile worker --queue {reason.queue}",)
    return Words(f"No worker of its queue {reason.queue} takes turns.", tuple(evidence), start)


def _locked(reason: Locked, clock: Clock) -> Words:
    stopped = "no worker can begin it" if reason.running_in is None else f"worker {reason.running_in} can't end it"
    since = (
        "only its role and pg_monitor see since when" if reason.since is None else f"open {clock.since(reason.since)}"
    )
    application = reason.application or "without a name"
    return Words(
        f"Another transaction keeps its row locked, or its session's: {stopped}.",
        (f"process {reason.pid} of Postgres: user {reason.user_name}, application {application}, {since}",),
        (f'psql "$OWNER_URL" -c "SELECT pg_terminate_backend({reason.pid})"',),
    )


def _quarantined(reason: Quarantined) -> Words:
    why = (
        "It waits its turn, to run alone: a turn with a crash on record runs in each worker of its queue."
        if reason.alone
        else "It waits for the end of turns that run alone, one in each worker: one more crash would end them."
    )
    return Words(why, (f"crashes on its record: {reason.crashes}",))


def _session_locked(reason: LockWithoutRow) -> Words:
    headline = f"Worker {reason.worker_id} has the session's lock, and no turn of the session is RUNNING."
    fate = (
        "the worker is alive: it claims the turn in a moment, or releases the lock"
        if reason.worker_is_alive
        else "the worker is not alive: the lock expires, and a later wake-up brings another worker"
    )
    return Words(headline, (f"the lock {reason.key} expires in {short_duration(reason.seconds_left)}", fate))


def _not_sent(reason: NotSent, wake: tuple[str, ...], clock: Clock) -> Words:
    missing = "sent its wake-up" if reason.placed else "given it its place in the session"
    return Words(
        f"It is due, and no relay has {missing} {clock.since(reason.since)}.",
        (
            f"workers of its queue {reason.queue} that are alive: {reason.workers}, each with a relay unless it has --no-relay",
            "the log of a relay that SQS refuses says relay.not_sent",
        ),
        ("turnstile relay", *(wake if reason.placed else ())),
    )
