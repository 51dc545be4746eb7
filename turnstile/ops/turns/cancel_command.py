"""`turnstile cancel`: a waiting turn at once, a running one by request; one turn by its id, or many by filter."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from turnstile.audit.event import AuditKind
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import (
    AsJson,
    DryRun,
    QueueName,
    SessionId,
    TenantId,
    TraceId,
    Yes,
    confirm,
    parse_age,
)
from turnstile.ops.terminal.output import print_json, print_text
from turnstile.ops.turns.operator_turns import find_tenants
from turnstile.statements.cancel import CanceledTurn
from turnstile.statements.cancel import cancel as cancel_turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.status import TurnStatus


class Open(StrEnum):
    """Which open turns to cancel."""

    PENDING = "pending"
    RUNNING = "running"
    OPEN = "open"

    @property
    def status(self) -> TurnStatus | None:
        return None if self is Open.OPEN else TurnStatus(self.value.upper())


def cancel(
    turn: Annotated[UUID | None, typer.Argument(metavar="TURN", show_default=False)] = None,
    queue: QueueName = None,
    session: SessionId = None,
    tenant: TenantId = None,
    trace: TraceId = None,
    older_than: Annotated[
        float | None,
        typer.Option(parser=parse_age, metavar="AGE", help="Only if it was submitted longer ago: 30m, 36h, 7d."),
    ] = None,
    status: Annotated[
        Open | None, typer.Option(case_sensitive=False, help="Only with this status; open: both.  [default: open]")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a turn, or all open turns that match: at once while they wait, by request while they run.

    A turn that has ended stays as it is. A cancel cannot be undone. You can stop the command at any point and run it again. A
    handler that runs may start children until it stops: with --trace, repeat the command until no open turn matches.

    --json of a TURN: id, status, requested (false: it had ended before). Of many: dry_run, matched, open (by queue and status),
    and how many turns are canceled, stopping (RUNNING, asked to stop) and moved_on (left alone: they began or ended meanwhile).
    """
    if turn is not None:
        if dry_run or any(option is not None for option in (queue, session, trace, older_than, status)):
            raise typer.BadParameter("with a TURN, only the options --tenant, --yes and --json are allowed")
        settings = load_settings()
        confirm(f"Cancel {turn}? This cannot be undone.", yes=yes)
        _report_turn(turn, operate(settings, _cancel, turn, tenant), as_json=as_json)
        return
    # Not at the top, because they import SQLAlchemy: a cancel of one turn starts without it.
    from turnstile.ops.turns.cancel_many import cancel_many
    from turnstile.ops.turns.open_turns import OpenFilter

    wanted = OpenFilter(
        queue=queue,
        tenant_id=tenant,
        session_id=session,
        trace_id=trace,
        status=status.status if status else None,
        older_than_seconds=older_than,
    )
    if wanted == OpenFilter() and status is None:
        raise typer.BadParameter("name a TURN, or a filter; --status open means every open turn")
    settings = load_settings()
    settings.select_queues(queue)
    cancel_many(settings, wanted, dry_run=dry_run, yes=yes, as_json=as_json)


def _report_turn(turn: UUID, canceled: CanceledTurn, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": turn, "status": canceled.status, "requested": canceled.requested})
    else:
        print_text(f"turn {turn} {_describe(canceled)}")
    if not canceled.requested and canceled.status is not TurnStatus.CANCELED:
        raise typer.Exit(ExitCode.FAILED)


def _describe(canceled: CanceledTurn) -> str:
    if not canceled.requested:
        return f"had ended before, and stays {canceled.status}"
    if canceled.status is TurnStatus.RUNNING:
        return "is RUNNING: its worker is asked to stop it, and it is CANCELED then"
    return "is CANCELED"


async def _cancel(operator: Operator, turn_id: UUID, tenant_id: str | None) -> CanceledTurn:
    # If several tenants use this id, only the first can have an open turn.
    tenants = await find_tenants(operator.database, turn_id)
    tenant = tenant_id or next(iter(tenants), "")
    if tenant in tenants:
        await operator.audit(AuditKind.TURNS_CANCELED, f"turn {turn_id}", tenant_id=tenant, counts={"turns": 1})
    canceled = await cancel_turn(operator.database, tenant, turn_id, CancelReason.OPERATOR)
    if canceled is None:
        raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
    if canceled.requested:
        await operator.hints.tell(tenant, canceled.session_id, turn_id, canceled.status)
    await operator.wake(canceled.woken)
    return canceled
