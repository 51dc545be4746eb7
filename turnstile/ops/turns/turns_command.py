"""`turnstile list` and `turnstile status`: operator queries on the status table, across all tenants."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from turnstile.ops.terminal.clocks import read_clock
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
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
from turnstile.ops.terminal.output import (
    Columns,
    print_fields,
    print_json,
    print_table,
    print_text,
    say,
    short_duration,
    short_time,
    shortened,
)
from turnstile.ops.turns.attempts import EndedAttempt, read_attempts
from turnstile.ops.turns.attempts_table import print_attempts
from turnstile.ops.turns.operator_turns import (
    OperatorFilter,
    TurnMessage,
    find_tenants,
    list_turns_of_all,
    read_messages,
)
from turnstile.ops.turns.turn_document import attempt_document, measure_turn, turn_document
from turnstile.ops.turns.wait_for_turn import wait_until_ended
from turnstile.queries.turns import read_turn
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

OF_HANDLER = "the handler's"
"""The time-out of a turn owner submit gave none: the table does not have it."""


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """All that an operator can see of a turn."""

    turn: TurnRecord
    attempts: list[EndedAttempt]
    said: list[TurnMessage]
    at: datetime
    """When it was read, by the database's clock."""


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


async def read_shown(
    operator: Operator, turn_id: UUID, tenant: str | None = None, wait_seconds: float | None = None
) -> ShownTurn:
    """Reads a turn. With `wait_seconds`, waits at most that long for its end. Raises CommandError if there is none."""
    database = operator.database
    tenants = await find_tenants(database, turn_id)
    tenant_id = tenant or next(iter(tenants), "")
    for other in tenants:
        if other != tenant_id:
            say(f"tenant {other} has a turn of this id, too (--tenant)")

    async def read(_: float) -> TurnRecord:
        record = await read_turn(database, tenant_id, turn_id)
        if record is None:
            raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
        return record

    record = await wait_until_ended(read, lambda turn: turn.status, wait_seconds or 0.0)
    return ShownTurn(
        record,
        await read_attempts(database, tenant_id, turn_id),
        await read_messages(database, tenant_id, turn_id),
        await read_clock(database),
    )


def print_shown(shown: ShownTurn, *, show_text: bool, as_json: bool) -> None:
    """Prints a turn and its attempts; with `show_text` also what was said."""
    document = {**turn_document(shown.turn), **asdict(measure_turn(shown.turn, shown.at))}
    if as_json:
        said = {"messages": shown.said} if show_text else {}
        print_json({"turn": document, "attempts": [attempt_document(one) for one in shown.attempts], **said})
        return
    print_fields({**document, "timeout_seconds": shown.turn.timeout_seconds or f"{OF_HANDLER}, or the queue's"})
    print_attempts(shown.turn, shown.attempts, shown.at)
    if show_text:
        for message in shown.said:
            kind = "" if message.kind == "message" else f" ({message.kind})"
            content = message.content
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            print_text(f"\n{message.role}{kind}: {text}")
