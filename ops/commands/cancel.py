"""`turnstile cancel`: a waiting turn at once, a running one by request (G15); with --session, all its open turns."""

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.commands.waking import wake
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import AsJson, print_json, say
from turnstile.turn.message import DEFAULT_TENANT

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.statements.cancel import CanceledSession, CanceledTurn


def cancel(
    turn: Annotated[UUID | None, typer.Argument(metavar="[TURN]", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Every open turn of this session.", show_default=False)
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="With --session: whose; `default` if none is named.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a turn: at once while it waits, by request while it runs. One that has ended stays as it is."""
    if (turn is None) == (session is None):
        raise typer.BadParameter("name a TURN or a --session")
    if tenant is not None and session is None:
        raise typer.BadParameter("--tenant goes with --session; a turn is found by its id")
    if turn is not None:
        _one(turn, as_json=as_json)
    elif session is not None:
        _all(session, DEFAULT_TENANT if tenant is None else tenant, as_json=as_json)


def _one(turn: UUID, *, as_json: bool) -> None:
    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.turn.status import TurnStatus

    canceled = run(_cancel(load_settings(), turn))
    if as_json:
        print_json({"id": turn, "status": canceled.status, "requested": canceled.requested})
    if canceled.requested:
        running = canceled.status is TurnStatus.RUNNING
        say(f"{turn} is asked to stop; its worker hears of it at once" if running else f"{turn} is CANCELED")
        return
    say(f"{turn} had ended before: {canceled.status}")
    if canceled.status is not TurnStatus.CANCELED:
        raise typer.Exit(ExitCode.FAILED)


def _all(session: str, tenant: str, *, as_json: bool) -> None:
    from turnstile.ops.terminal.input import check_id
    from turnstile.ops.terminal.operator_access import load_settings, run

    check_id("the tenant", tenant)
    check_id("the session", session)
    canceled = run(_cancel_session(load_settings(), tenant, session))
    counts: dict[str, Any] = {"canceled": len(canceled.canceled), "stopping": len(canceled.asked)}
    if as_json:
        print_json({"session_id": session, **counts})
    say(f"session {session}: {counts['canceled']} turns CANCELED, {counts['stopping']} asked to stop")


async def _cancel(settings: "Settings", turn_id: UUID) -> "CanceledTurn":
    from turnstile.ops.terminal.operator_access import cancel_hints, operator_database
    from turnstile.queries.operator_turns import find_tenants
    from turnstile.statements.cancel import cancel as cancel_turn
    from turnstile.turn.cancel_reason import CancelReason

    canceled: CanceledTurn | None = None
    async with operator_database(settings) as database:
        # If several tenants use this id, only the first can have an open turn.
        tenants = await find_tenants(database, turn_id)
        if tenants:
            canceled = await cancel_turn(database, tenants[0], turn_id, CancelReason.USER)
    if canceled is None:
        raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
    if canceled.requested:
        async with cancel_hints(settings) as hints:
            await hints.tell(tenants[0], canceled.session_id, turn_id, canceled.status)
    await wake(settings, canceled.woken, whom="the session's next turn")
    return canceled


async def _cancel_session(settings: "Settings", tenant_id: str, session_id: str) -> "CanceledSession":
    from turnstile.ops.terminal.operator_access import cancel_hints, operator_database
    from turnstile.statements.cancel import cancel_session
    from turnstile.turn.cancel_reason import CancelReason

    async with operator_database(settings) as database:
        canceled = await cancel_session(database, tenant_id, session_id, CancelReason.USER)
    if canceled is None:
        raise CommandError(f"tenant {tenant_id} has no session {session_id}", ExitCode.NOT_FOUND)
    async with cancel_hints(settings) as hints:
        await hints.publish(canceled.asked)
        await hints.tell_watchers(tenant_id, session_id, canceled.canceled)
    await wake(settings, canceled.woken, whom="the session's next turn")
    return canceled
