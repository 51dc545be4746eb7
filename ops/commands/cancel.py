"""`turnstile cancel`: a waiting turn at once, a running one by request (G15); with --session, all its open turns."""

from typing import Annotated
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson
from turnstile.ops.terminal.output import print_json, say
from turnstile.queries.operator_turns import find_tenants
from turnstile.statements.cancel import CanceledSession, CanceledTurn, cancel_session
from turnstile.statements.cancel import cancel as cancel_turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.message import DEFAULT_TENANT
from turnstile.turn.status import TurnStatus


def cancel(
    turn: Annotated[UUID | None, typer.Argument(metavar="[TURN]", show_default=False)] = None,
    session: Annotated[str | None, typer.Option("--session", help="Every open turn of this session.")] = None,
    tenant: Annotated[str | None, typer.Option(help="With --session: whose.  [default: default]")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a turn: at once while it waits, by request while it runs. One that has ended stays as it is."""
    if (turn is None) == (session is None):
        raise typer.BadParameter("name a TURN or a --session")
    if turn is not None:
        if tenant is not None:
            raise typer.BadParameter("--tenant goes with --session; a turn is found by its id")
        _report_turn(turn, operate(load_settings(), _cancel, turn), as_json=as_json)
    elif session is not None:
        whose = DEFAULT_TENANT if tenant is None else tenant
        _report_session(session, operate(load_settings(), _cancel_session, whose, session), as_json=as_json)


def _report_turn(turn: UUID, canceled: CanceledTurn, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": turn, "status": canceled.status, "requested": canceled.requested})
    if not canceled.requested:
        say(f"{turn} had ended before: {canceled.status}")
        if canceled.status is not TurnStatus.CANCELED:
            raise typer.Exit(ExitCode.FAILED)
    elif canceled.status is TurnStatus.RUNNING:
        say(f"{turn} is RUNNING: its worker is asked to stop it")
    else:
        say(f"{turn} is CANCELED")


def _report_session(session: str, canceled: CanceledSession, *, as_json: bool) -> None:
    ended, stopping = len(canceled.canceled), len(canceled.asked)
    if as_json:
        print_json({"session_id": session, "canceled": ended, "stopping": stopping})
    say(f"session {session}: {ended} turns CANCELED, {stopping} asked to stop")


async def _cancel(operator: Operator, turn_id: UUID) -> CanceledTurn:
    # If several tenants use this id, only the first can have an open turn.
    tenant = next(iter(await find_tenants(operator.database, turn_id)), "")
    canceled = await cancel_turn(operator.database, tenant, turn_id, CancelReason.USER)
    if canceled is None:
        raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
    if canceled.requested:
        await operator.hints.tell(tenant, canceled.session_id, turn_id, canceled.status)
    await operator.wake(canceled.woken)
    return canceled


async def _cancel_session(operator: Operator, tenant_id: str, session_id: str) -> CanceledSession:
    canceled = await cancel_session(operator.database, tenant_id, session_id, CancelReason.USER)
    if canceled is None:
        raise CommandError(f"tenant {tenant_id} has no session {session_id}", ExitCode.NOT_FOUND)
    await operator.hints.publish(canceled.asked)
    await operator.hints.tell_watchers(tenant_id, session_id, canceled.canceled)
    await operator.wake(canceled.woken)
    return canceled
