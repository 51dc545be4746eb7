"""`turnstile retry` and `turnstile skip`: two ways to resume a session that a FAILED turn has halted (G9)."""

import secrets
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.commands.waking import wake
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.input import confirm
from turnstile.ops.terminal.output import AsJson, print_fields, print_json, short_time

if TYPE_CHECKING:
    from turnstile.backends.postgres.database import Database
    from turnstile.config.settings import Settings
    from turnstile.statements.halt import Halt, Resumed, WayOn

TurnId = Annotated[UUID, typer.Argument(metavar="TURN", help="The turn that halts its session.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def retry(turn: TurnId, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Run a turn that halts its session again: in its old place, with fresh budgets. The session then goes on."""
    from turnstile.statements.halt import WayOn

    _let_go_on(turn, WayOn.RETRY, dry_run=dry_run, yes=yes, as_json=as_json)


def skip(turn: TurnId, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Pass a turn that halts its session over: it stays FAILED and is dead-lettered. The session goes on behind it."""
    from turnstile.statements.halt import WayOn

    _let_go_on(turn, WayOn.SKIP, dry_run=dry_run, yes=yes, as_json=as_json)


def _let_go_on(turn_id: UUID, way: "WayOn", *, dry_run: bool, yes: bool, as_json: bool) -> None:
    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.statements.halt import WayOn

    settings = load_settings()
    halt = run(_read(settings, turn_id))
    if not halt.halts:
        raise CommandError(_refusal(halt))
    if way is WayOn.RETRY and (reason := why_not_again(halt)):
        raise CommandError(f"{halt.id} {reason}; nothing was changed")
    if way is WayOn.RETRY:
        # Checked before the confirmation: a retry takes its new budgets from the queue. A skip does not need the queue.
        settings.find_queue(halt.queue)
    resumed = None
    if not dry_run:
        # Outside of any event loop: inside one, Ctrl-C would only cancel the task that waits for the keyboard.
        confirm(_question(halt, way), yes=yes)
        resumed = run(_resume(settings, halt, way))
    document = as_document(halt, way, resumed)
    if as_json:
        print_json(document)
    else:
        print_fields(document)


async def _read(settings: "Settings", turn_id: UUID) -> "Halt":
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.statements.halt import read_halt

    async with operator_database(settings) as database:
        halt = await read_halt(database, turn_id)
        archived = await find_archived(database, turn_id) if halt is None else None
    if archived is not None:
        raise CommandError(f"{archived}; nothing was changed")
    if halt is None:
        raise CommandError(f"there is no turn {turn_id}; nothing was changed", ExitCode.NOT_FOUND)
    return halt


async def _resume(settings: "Settings", halt: "Halt", way: "WayOn") -> "Resumed":
    from turnstile.ops.dead_letters.redrive import whoever_runs_this
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.statements.halt import WayOn, retry, skip
    from turnstile.turn.identifiers import start_trace

    who = whoever_runs_this()
    async with operator_database(settings) as database:
        if way is WayOn.RETRY:
            trace = start_trace(secrets.randbits(192))
            expires = settings.find_queue(halt.queue).expires_in_seconds
            resumed = await retry(database, halt.id, trace, expires_in_seconds=expires, requested_by=who)
        else:
            resumed = await skip(database, halt.id, requested_by=who)
    if resumed is None:
        raise CommandError(f"{halt.id} halts its session no more: somebody was quicker; nothing was changed")
    await wake(settings, resumed.woken, whom="the session")
    return resumed


def as_document(halt: "Halt", way: "WayOn", resumed: "Resumed | None") -> dict[str, Any]:
    """The JSON document. The same keys with and without --dry-run; `woken` is the turn with which the session resumes."""
    return {
        "dry_run": resumed is None,
        "action": way,
        "turn": halt.id,
        "tenant_id": halt.tenant_id,
        "session_id": halt.session_id,
        "queue": halt.queue,
        "error_class": halt.error_class,
        "failed_at": halt.finished_at,
        "waiting": halt.waiting,
        "woken": resumed.woken[1].wake_up.turn_id if resumed and resumed.woken else None,
    }


def why_not_again(halt: "Halt") -> str | None:
    """Why no command may run a FAILED turn again; None if it may run."""
    if halt.replaced:
        return "is FAILED, and its parent has started it anew since (see turnstile trace): run again, it would be done twice"
    if halt.compensated:
        return "is FAILED, and its compensation has not ended yet (see turnstile trace): it would undo the new run"
    if halt.overtaken:
        return "is FAILED, and the turn that it compensates was put back to work since: it would undo the new run"
    return None


async def find_archived(database: "Database", turn_id: UUID) -> str | None:
    """The error text for an archived turn, which can't run again; None if the archive does not have the turn."""
    from turnstile.queries.operator_turns import read_turn_of_any

    turn = await read_turn_of_any(database, turn_id)
    if turn is None:
        return None
    return f"{turn_id} is {turn.status} and in the archive: it can't run again; see turnstile status {turn_id}"


def _refusal(halt: "Halt") -> str:
    from turnstile.turn.status import TurnStatus

    hint = "; try turnstile redrive" if halt.status is TurnStatus.FAILED else ""
    return f"{halt.id} is {halt.status} and halts no session; nothing was changed{hint}"


def _question(halt: "Halt", way: "WayOn") -> str:
    from turnstile.statements.halt import WayOn

    asked = "Run it again" if way is WayOn.RETRY else "Pass it over"
    return (
        f"Session {halt.session_id} of tenant {halt.tenant_id} is halted since {short_time(halt.finished_at)} "
        f"({halt.error_class}), with {halt.waiting} turns waiting. {asked}?"
    )
