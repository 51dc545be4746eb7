"""`turnstile list` and `turnstile status`: operator queries on the status table, across all tenants."""

from typing import Annotated

import typer

from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import (
    AsJson,
    Limit,
    QueueName,
    SessionId,
    ShowText,
    TenantId,
    TurnId,
    WaitSeconds,
    parse_age,
)
from turnstile.ops.terminal.output import Columns, print_json, print_table, say, short_duration, short_time, shortened
from turnstile.ops.turns.operator_turns import OperatorFilter, list_turns_of_all
from turnstile.ops.turns.shown_turn import OF_HANDLER, print_shown, read_shown
from turnstile.ops.turns.turn_document import turn_document
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


def show_turn(
    turn: TurnId,
    show_text: ShowText = False,
    wait: WaitSeconds = None,
    tenant: TenantId = None,
    as_json: AsJson = False,
) -> None:
    """Show a turn and its attempts.

    --json: turn, attempts (oldest first), and with --show-text messages (ordinal, role, kind, content, created_at). *_at is a
    time in UTC, *_seconds a duration; null: there is none, or not yet.

    turn: id, tenant_id, session_id, seq (its place in the session), queue, status, kind (turn, or compensation), generation (one
    more with each redrive or retry), attempt, failures, crashes, max_attempts, timeout_seconds (null: the handler's, or the
    queue's), deadline_at (of the attempt that runs, by the turn's own time-out; null: it has none), worker_id, created_at,
    queued_at (it began to wait), first_started_at, started_at (of its last attempt), finished_at, execute_at (it does not begin
    before), expires_at (no retry begins after), cancel_requested_at, cancel_reason, error_class, error, dead_lettered_at,
    dropped_at, dropped_by, halted_by (the FAILED turn that halts its session), trace_id, span_id, parent_span_id, parent_turn_id,
    joining (the children that it waits for), metadata, webhook (tries, delivered_at, next_try_at, error), waiting_seconds,
    running_seconds, total_seconds.

    An attempt: generation, attempt, fence, worker_id, release (of the handler), due_at, started_at, finished_at, waiting_seconds,
    running_seconds (null if its worker was lost; finished_at is then the time of the takeover), outcome, error_class, error,
    traceback.
    """
    shown = operate(load_settings(), read_shown, turn, tenant, wait)
    print_shown(shown, show_text=show_text, as_json=as_json)
    if wait is not None and shown.turn.status is not TurnStatus.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)
