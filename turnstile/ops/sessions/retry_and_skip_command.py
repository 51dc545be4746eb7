"""`turnstile retry` and `turnstile skip`: two ways to resume a session that a FAILED turn has halted."""

import secrets
from typing import Any
from uuid import UUID

import typer

from turnstile.config.settings import Settings
from turnstile.ops.sessions import halted_session
from turnstile.ops.sessions.halted_session import Halt, HaltDecision, Resumed
from turnstile.ops.sessions.redrive_refusals import rerun_refusal, why_left_alone
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, DryRun, TurnId, WaitSeconds, Yes, confirm
from turnstile.ops.terminal.output import print_json, print_text, say, short_time
from turnstile.ops.turns.shown_turn import read_shown
from turnstile.ops.turns.wait_for_turn import describe_end
from turnstile.turn.identifiers import start_trace
from turnstile.turn.status import TurnStatus


def retry(
    turn: TurnId, wait: WaitSeconds = None, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Run again a turn that halts its session: in its old place, with fresh budgets. The session then goes on.

    --json: dry_run, action, turn, tenant_id, session_id, queue, error_class, failed_at, waiting (turns behind it), woken (the
    turn with which the session goes on). With --wait, the document is printed before the wait.
    """
    settings = load_settings()
    halt = _resolve_halt(settings, turn, HaltDecision.RETRY, dry_run=dry_run, yes=yes, as_json=as_json)
    if wait is not None and not dry_run:
        try:
            ended = operate(settings, read_shown, turn, halt.tenant_id, wait).turn
        except BaseException:
            say(f"turn {turn} is retried, and this command has stopped waiting for it: see turnstile status {turn}")
            raise
        say(describe_end(turn, ended.status, ended.error_class, ended.error))
        if ended.status is not TurnStatus.SUCCEEDED:
            raise typer.Exit(ExitCode.FAILED)


def skip(turn: TurnId, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Pass over a turn that halts its session: it stays FAILED and is dead-lettered. The session goes on behind it.

    --json: dry_run, action, turn, tenant_id, session_id, queue, error_class, failed_at, waiting (turns behind it), woken (the
    turn with which the session goes on).
    """
    _resolve_halt(load_settings(), turn, HaltDecision.SKIP, dry_run=dry_run, yes=yes, as_json=as_json)


def _resolve_halt(
    settings: Settings, turn_id: UUID, decision: HaltDecision, *, dry_run: bool, yes: bool, as_json: bool
) -> Halt:
    halt = operate(settings, _read, turn_id, decision)
    if decision is HaltDecision.RETRY:
        # Checked before the confirmation: a retry takes its new budgets from the queue. A skip does not need the queue.
        settings.find_queue(halt.queue)
    resumed, asked = None, "run it again" if decision is HaltDecision.RETRY else "pass it over"
    if not dry_run:
        confirm(f"{_describe(halt)} {asked.capitalize()}?", yes=yes)
        resumed = operate(settings, _resume, halt, decision)
    if as_json:
        print_json(_as_document(halt, decision, resumed))
    elif resumed is None:
        print_text(f"{_describe(halt)} This would {asked}.")
    else:
        print_text(_describe_result(halt, decision, resumed))
    return halt


async def _read(operator: Operator, turn_id: UUID, decision: HaltDecision) -> Halt:
    halt = await halted_session.read_halt(operator.database, turn_id)
    if halt is None:
        raise CommandError(f"{turn_id} {await why_left_alone(operator.database, turn_id)}; nothing was changed")
    if not halt.halts:
        hint = f"redrive --turn {turn_id}" if halt.status is TurnStatus.FAILED else f"why {turn_id}"
        raise CommandError(
            f"{turn_id} is {halt.status} and does not halt a session; nothing was changed; try turnstile {hint}"
        )
    if decision is HaltDecision.RETRY and (reason := rerun_refusal(halt)):
        raise CommandError(
            f"{turn_id} {reason}; nothing was changed; to let its session go on without it: turnstile skip {turn_id}"
        )
    return halt


async def _resume(operator: Operator, halt: Halt, decision: HaltDecision) -> Resumed:
    who = operator.name
    if decision is HaltDecision.RETRY:
        trace = start_trace(secrets.randbits(192))
        expires = operator.settings.find_queue(halt.queue).expires_in_seconds
        resumed = await halted_session.retry(
            operator.database, halt.id, trace, expires_in_seconds=expires, requested_by=who
        )
    else:
        resumed = await halted_session.skip(operator.database, halt.id, requested_by=who)
    if resumed is None:
        raise CommandError(
            f"{halt.id} no longer halts its session: another command has resumed it; nothing was changed"
        )
    await operator.wake(resumed.woken)
    return resumed


def _as_document(halt: Halt, decision: HaltDecision, resumed: Resumed | None) -> dict[str, Any]:
    # The same keys with and without --dry-run; `woken` is the turn with which the session resumes.
    return {
        "dry_run": resumed is None,
        "action": decision,
        "turn": halt.id,
        "tenant_id": halt.tenant_id,
        "session_id": halt.session_id,
        "queue": halt.queue,
        "error_class": halt.error_class,
        "failed_at": halt.finished_at,
        "waiting": halt.waiting,
        "woken": resumed.woken[1].wake_up.turn_id if resumed and resumed.woken else None,
    }


def _describe(halt: Halt) -> str:
    return (
        f"{halt.id} has halted session {halt.session_id} of tenant {halt.tenant_id} since {short_time(halt.finished_at)} "
        f"({halt.error_class}). Turns that wait behind it: {halt.waiting}."
    )


def _describe_result(halt: Halt, decision: HaltDecision, resumed: Resumed) -> str:
    if decision is HaltDecision.RETRY:
        return f"{halt.id} is PENDING again, in its old place: session {halt.session_id} goes on with it"
    on = f"goes on with {resumed.woken[1].wake_up.turn_id}" if resumed.woken else "is no longer halted"
    return f"{halt.id} is passed over and stays FAILED: session {halt.session_id} {on}"
