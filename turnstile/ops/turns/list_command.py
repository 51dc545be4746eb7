"""`turnstile list`: the newest turns of all tenants or of one."""

from typing import Annotated

import typer

from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, QueueName, SessionId, TenantId, parse_age
from turnstile.ops.terminal.output import Columns, print_json, print_table, say, short_duration, short_time, shortened
from turnstile.ops.turns.operator_lists import OperatorFilter, list_turns_of_all
from turnstile.ops.turns.turn_document import OF_HANDLER, turn_document
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord


def list_turns(
    status: Annotated[TurnStatus | None, typer.Option(case_sensitive=False, help="Only with this status.")] = None,
    queue: QueueName = None,
    session: SessionId = None,
    tenant: TenantId = None,
    halting: Annotated[bool, typer.Option("--halting", help="Only those that halt their session.")] = False,
    since: Annotated[
        float | None,
        typer.Option(
            parser=parse_age, metavar="AGE", help="With --tenant: only those submitted within this time: 15m, 1h, 2d."
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(
            parser=parse_age, metavar="AGE", help="With --tenant: only those submitted longer ago: 15m, 1h, 2d."
        ),
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List turns, newest first.

    Expires: no retry of an open turn begins after this time. Time-out: of one attempt, as the submit gave it, or the handler's.

    With --tenant, --limit keeps the turns that were submitted last. Without --tenant, it keeps those with the highest ids;
    if clients choose ids, these need not be the newest. --since 2h --until 1h: the turns submitted between two hours and one
    hour ago.

    --json: turns (each with the fields of `turn` in `turnstile status --json`, without the three durations).
    """
    if tenant is None and (since, until) != (None, None):
        raise typer.BadParameter(
            "--since and --until need --tenant: only within one tenant are turns found by their times"
        )
    if since is not None and until is not None and since <= until:
        raise typer.BadParameter("no turn can match: --since must reach further back than --until")
    wanted = OperatorFilter(
        tenant_id=tenant,
        session_id=session,
        status=status,
        queue=queue,
        halting=halting,
        since_seconds=since,
        until_seconds=until,
    )
    settings = load_settings()
    settings.select_queues(queue)
    found = operate(settings, _list, wanted, limit)
    if as_json:
        print_json({"turns": [turn_document(turn) for turn in found]})
        return
    columns: Columns = {
        "turn": "id",
        "tenant": "tenant_id",
        "session": "session_id",
        "seq": "seq",
        "queue": "queue",
        "status": "status",
        "attempt": "attempt",
        "created": "created_at",
        "due": _due,
        "time-out": lambda turn: short_duration(turn.timeout_seconds) or OF_HANDLER,
        "expires": lambda turn: turn.expires_at if turn.status.is_open else None,
        "error": lambda turn: shortened(turn.error_class, 40),
    }
    print_table(columns, found)
    if len(found) == limit:
        say(f"the newest {limit}; there may be more (--limit)")


def _due(turn: TurnRecord) -> str | None:
    if turn.halted_by == turn.id:
        return "halts its session"
    if not turn.status.is_open:
        return None
    return short_time(turn.execute_at) if turn.halted_by is None else "halted"


async def _list(operator: Operator, wanted: OperatorFilter, limit: int) -> list[TurnRecord]:
    return await list_turns_of_all(operator.database, wanted, limit)
