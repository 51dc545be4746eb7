"""`turnstile audit`: who did what."""

from typing import Annotated

import typer

from turnstile.audit.event import AuditKind
from turnstile.ops.audit.read_audit import AuditFilter, RecordedEvent, read_audit
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, TenantId, parse_age
from turnstile.ops.terminal.output import Columns, describe_counts, print_json, print_table, say, shortened


def audit(
    kind: Annotated[AuditKind | None, typer.Option(help="Only of this kind.", show_choices=False)] = None,
    tenant: TenantId = None,
    actor: Annotated[
        str | None, typer.Option(help="Only by this operator, key or address, as the list shows it.")
    ] = None,
    since: Annotated[
        float | None,
        typer.Option(parser=parse_age, metavar="AGE", help="Only those recorded within this time: 15m, 1h, 2d."),
    ] = None,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="ID", help="Only those recorded before this one: the next page.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List who did what, newest first: refused and changed keys, cancels of many, redrives, reads of messages, and others.

    An event never has what a user or a handler said. docs/audit.md explains each kind.

    --json: events. Each: id, kind, actor, tenant_id (null: it is about none or several), subject, counts, reason, created_at.
    """
    wanted = AuditFilter(kind=kind, tenant_id=tenant, actor=actor, since_seconds=since, before=before)
    found = operate(load_settings(), _read, wanted, limit)
    if as_json:
        print_json({"events": found})
        return
    columns: Columns = {
        "id": "id",
        "at": "created_at",
        "kind": "kind",
        "by": "actor",
        "tenant": "tenant_id",
        "subject": "subject",
        "how many": lambda event: describe_counts(event.counts),
        "reason": lambda event: shortened(event.reason, 80),
    }
    print_table(columns, found)
    if len(found) == limit:
        say(f"the newest {limit}; there may be more: --before {found[-1].id}")


async def _read(operator: Operator, wanted: AuditFilter, limit: int) -> list[RecordedEvent]:
    return await read_audit(operator.database, wanted, limit)
