"""`turnstile wake`: a waiting turn is due now."""

from uuid import UUID

from turnstile.ops.sessions.wake_turn import NotWoken, Woken, wake_turn
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, DryRun, TurnId, Yes, confirm
from turnstile.ops.terminal.output import print_json, say
from turnstile.ops.why.look import explain_turn


def wake(turn: TurnId, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Make a waiting turn due now: ends its wait for a retry, its snooze or its schedule, and sends its wake-up.

    --json: id, queue, dry_run, placed (false: a relay gives the turn its place in the session first).
    """
    settings = load_settings()
    waits = operate(settings, _look, turn)
    if not dry_run:
        confirm(f"{waits} Make {turn} due now?", yes=yes)
    woken = operate(settings, _wake, turn, apply=not dry_run)
    if as_json:
        print_json({"id": turn, "queue": woken.queue, "dry_run": dry_run, "placed": woken.placed})
    if dry_run:
        say(f"{turn} would be due")
    elif woken.placed:
        say(f"{turn} is due now")
    else:
        say(f"{turn} is due now: a relay gives it its place in the session, and sends its wake-up")


async def _look(operator: Operator, turn_id: UUID) -> str:
    """What the turn waits for. Raises CommandError if it can't be woken: then nobody is asked."""
    await _wake(operator, turn_id, apply=False)
    answer = await explain_turn(operator.settings, operator.database, turn_id, None)
    return answer.reason.headline if answer is not None else ""


async def _wake(operator: Operator, turn_id: UUID, *, apply: bool) -> Woken:
    found = await wake_turn(operator.database, turn_id, by=operator.name if apply else None)
    match found:
        case Woken(queue=queue, message=message, placed=placed):
            if apply and placed:
                await operator.wake((queue, message))
            return found
        case NotWoken.LOCKED:
            raise CommandError(
                f"{turn_id} {found}; nothing was changed. Try again; if it stays locked, run turnstile doctor",
                ExitCode.UNAVAILABLE,
            )
        case NotWoken():
            raise CommandError(f"{turn_id} {found}: see turnstile why {turn_id}; nothing was changed")
        case None:
            pass
    answer = await explain_turn(operator.settings, operator.database, turn_id, None)
    if answer is None:
        raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
    raise CommandError(f"{turn_id} is in the archive: it can't run again; nothing was changed")
