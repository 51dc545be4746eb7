"""`turnstile cancel` of many turns: counts them, asks, cancels session by session, and says how far it came."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

from turnstile.audit.event import AuditKind
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import Operator, operate
from turnstile.ops.terminal.options import confirm
from turnstile.ops.terminal.output import Progress, plural, print_json, print_text, say, short_duration
from turnstile.ops.turns.open_turns import MOST, OpenFilter, OpenTurn, list_open
from turnstile.statements.cancel import cancel_some
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.status import TurnStatus

OPEN = (TurnStatus.PENDING, TurnStatus.RUNNING)


@dataclass(slots=True, kw_only=True)
class ManyCanceled:
    """The counts of a cancel of many."""

    canceled: int = 0
    stopping: int = 0
    """RUNNING turns whose workers were asked to stop them."""
    moved_on: int = 0
    """Turns that had ended, or had left the asked status, before the command came to their session."""

    def __str__(self) -> str:
        parts = [f"{plural(self.canceled, 'turn')} CANCELED"]
        if self.stopping:
            parts.append(f"{plural(self.stopping, 'RUNNING turn')} asked to stop")
        if self.moved_on:
            parts.append(f"{plural(self.moved_on, 'turn')} left alone: began or ended meanwhile")
        return ", ".join(parts)


def cancel_many(settings: Settings, wanted: OpenFilter, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Cancels the open turns that match when it begins, after a question; those that are submitted later stay."""
    found = operate(settings, _list, wanted)
    if found and not dry_run:
        confirm(f"{_describe(found)}. Cancel them? This cannot be undone.", yes=yes)
    done = ManyCanceled() if dry_run or not found else operate(settings, _cancel_all, found, wanted)
    if as_json:
        print_json({"dry_run": dry_run, "matched": len(found), "open": count_open(found), **asdict(done)})
    elif found:
        print_text(f"would cancel {_describe(found)}" if dry_run else str(done))
    if not found:
        say("no open turn matches")
    if len(found) == MOST:
        say(f"the oldest {MOST} only; run it again for the others")
        raise typer.Exit(ExitCode.FAILED)


def count_open(found: Sequence[OpenTurn]) -> dict[str, dict[str, int]]:
    """How many turns, by queue and status."""
    counts = Counter((turn.queue, turn.status.value) for turn in found)
    by_queue: dict[str, dict[str, int]] = {}
    for (queue, status), turns in sorted(counts.items()):
        by_queue.setdefault(queue, {})[status] = turns
    return by_queue


def _describe(found: Sequence[OpenTurn]) -> str:
    parts = [f"{queue}: {turns} {status}" for queue, of in count_open(found).items() for status, turns in of.items()]
    sessions = len({(turn.tenant_id, turn.session_id) for turn in found})
    tenants = sorted({turn.tenant_id for turn in found})
    whose = f"tenant {tenants[0]}" if len(tenants) == 1 else plural(len(tenants), "tenant")
    return f"{plural(len(found), 'open turn')} of {plural(sessions, 'session')} of {whose} ({', '.join(parts)})"


def _name(wanted: OpenFilter) -> str:
    """The filter in a few words, without its tenant."""
    terms = {
        "queue": wanted.queue,
        "session": wanted.session_id,
        "trace": wanted.trace_id,
        "status": wanted.status,
        "older than": short_duration(wanted.older_than_seconds),
    }
    named = ", ".join(f"{name} {value}" for name, value in terms.items() if value)
    return f"open turns: {named}" if named else "open turns"


async def _list(operator: Operator, wanted: OpenFilter) -> list[OpenTurn]:
    return await list_open(operator.database, wanted)


async def _cancel_all(operator: Operator, found: Sequence[OpenTurn], wanted: OpenFilter) -> ManyCanceled:
    counts = {"turns": len(found)}
    await operator.audit(AuditKind.TURNS_CANCELED, _name(wanted), tenant_id=wanted.tenant_id, counts=counts)
    done = ManyCanceled()
    statuses = OPEN if wanted.status is None else (wanted.status,)
    progress = Progress()
    sessions: defaultdict[tuple[str, str], list[OpenTurn]] = defaultdict(list)
    for turn in found:
        sessions[turn.tenant_id, turn.session_id].append(turn)
    try:
        for place, (session, turns) in enumerate(sessions.items(), 1):
            await _cancel_in_session(operator, session, turns, statuses, done)
            progress.say(f"{place} of {plural(len(sessions), 'session')}: {done}")
    except BaseException:
        say(f"broken off: {done}")
        raise
    return done


async def _cancel_in_session(
    operator: Operator,
    session: tuple[str, str],
    turns: Sequence[OpenTurn],
    statuses: Sequence[TurnStatus],
    done: ManyCanceled,
) -> None:
    # One transaction for a session: if its turns were cancelled one by one, a worker would begin the next one in between.
    chosen = frozenset((turn.id, status) for turn in turns for status in statuses)
    met = await cancel_some(operator.database, *session, chosen, CancelReason.OPERATOR)
    done.canceled += len(met.canceled)
    done.stopping += len(met.asked)
    done.moved_on += len(turns) - len(met.canceled) - len(met.asked)
    await operator.hints.publish(met.asked)
    await operator.hints.tell_watchers(*session, met.canceled)
    await operator.wake(met.woken)
