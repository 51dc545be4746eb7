"""`turnstile list` and `turnstile status`: operator queries on the status table, across all tenants."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.input import check_finite
from turnstile.ops.terminal.output import (
    AsJson,
    print_fields,
    print_json,
    print_table,
    print_text,
    say,
    short_time,
    shortened,
)
from turnstile.ops.terminal.wait_option import WAIT_SECONDS

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.queries.attempts import EndedAttempt
    from turnstile.queries.operator_turns import OperatorFilter, TurnMessage
    from turnstile.queries.turns import TurnRecord
    from turnstile.turn.status import TurnStatus


def parse_status(text: str) -> "TurnStatus":
    """Parses a status in any case; also accepts the spelling `cancelled`."""
    from turnstile.turn.status import TurnStatus

    name = text.strip().upper()
    try:
        return TurnStatus("CANCELED" if name == "CANCELLED" else name)
    except ValueError:
        known = ", ".join(TurnStatus)
        raise typer.BadParameter(f"{text!r} is none of {known}", param_hint="--status") from None


def list_turns(
    status: Annotated[str | None, typer.Option(help="PENDING, RUNNING, SUCCEEDED, FAILED or CANCELED.")] = None,
    queue: Annotated[str | None, typer.Option()] = None,
    session: Annotated[str | None, typer.Option()] = None,
    tenant: Annotated[str | None, typer.Option()] = None,
    halting: Annotated[bool, typer.Option("--halting", help="Only those that halt their session.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """List turns, newest first."""
    wanted_status = None if status is None else parse_status(status)

    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.queries.operator_turns import OperatorFilter

    wanted = OperatorFilter(tenant_id=tenant, session_id=session, status=wanted_status, queue=queue, halting=halting)
    settings = load_settings()
    if queue is not None:
        settings.find_queue(queue)
    found = run(_list(settings, wanted, limit))
    if as_json:
        print_json({"turns": [as_document(turn) for turn in found]})
        return
    columns = ("turn", "tenant", "session", "seq", "queue", "status", "attempt", "created", "due", "error")
    print_table(
        columns,
        [
            (
                turn.id,
                turn.tenant_id,
                turn.session_id,
                turn.seq,
                turn.queue,
                turn.status,
                turn.attempt,
                turn.created_at,
                _due(turn),
                shortened(turn.error_class, 40),
            )
            for turn in found
        ],
    )
    if len(found) == limit:
        say(f"the newest {limit}; there may be more (--limit)")


def _due(turn: "TurnRecord") -> str | None:
    if turn.halted_by == turn.id:
        return "halts its session"
    if not turn.status.is_open:
        return None
    return short_time(turn.execute_at) if turn.halted_by is None else "halted"


def show_turn(
    turn: Annotated[UUID, typer.Argument(metavar="TURN")],
    show_text: Annotated[bool, typer.Option("--show-text", help="Show what was said, too.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="[SECONDS]",
            callback=check_finite,
            show_default=False,
            help=f"Wait for it to end; {WAIT_SECONDS:g} seconds if none are named. The exit code is then 1 unless it has "
            "SUCCEEDED.",
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(show_default=False, help="Whose, if several tenants have chosen this id.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a turn and its attempts."""
    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.turn.status import TurnStatus

    record, attempts, said = run(_read(load_settings(), turn, tenant, wait))
    document = as_document(record)
    if as_json:
        shown = {"messages": [asdict(message) for message in said]} if show_text else {}
        print_json({"turn": document, "attempts": [asdict(attempt) for attempt in attempts], **shown})
    else:
        print_fields(document)
        print_attempts(attempts)
        if show_text:
            print_said(said)
    if wait is not None and record.status is not TurnStatus.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)


def print_attempts(attempts: "list[EndedAttempt]") -> None:
    """Prints the attempts as a table; prints nothing if there are none."""
    if not attempts:
        return
    typer.echo()
    columns = ("generation", "attempt", "fence", "outcome", "started", "finished", "worker", "error")
    print_table(
        columns,
        [
            (
                attempt.generation,
                attempt.attempt,
                attempt.fence,
                attempt.outcome,
                attempt.started_at,
                attempt.finished_at,
                attempt.worker_id,
                ": ".join(filter(None, (attempt.error_class, shortened(attempt.error)))),
            )
            for attempt in attempts
        ],
    )


def print_said(said: "list[TurnMessage]") -> None:
    """Prints the messages."""
    import json

    for message in said:
        kind = "" if message.kind == "message" else f" ({message.kind})"
        text = message.content if isinstance(message.content, str) else json.dumps(message.content, ensure_ascii=False)
        print_text(f"\n{message.role}{kind}: {text}")


def as_document(turn: "TurnRecord") -> dict[str, Any]:
    """The row for JSON, without input and output, which need --show-text."""
    return {name: value for name, value in asdict(turn).items() if name not in {"inputs", "output"}}


async def _list(settings: "Settings", wanted: "OperatorFilter", limit: int) -> "list[TurnRecord]":
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.queries.operator_turns import list_turns_of_all

    async with operator_database(settings) as database:
        return [turn async for turn in list_turns_of_all(database, wanted, limit)]


async def _read(
    settings: "Settings", turn_id: UUID, tenant: str | None, wait: float | None
) -> "tuple[TurnRecord, list[EndedAttempt], list[TurnMessage]]":
    from turnstile.ops.commands.turn_waiting import wait_until_ended
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.queries.attempts import read_attempts
    from turnstile.queries.operator_turns import find_tenants, read_messages
    from turnstile.queries.turns import read_turn

    async with operator_database(settings) as database:
        tenants = await find_tenants(database, turn_id)
        whose = tenant or next(iter(tenants), "")
        for other in tenants:
            if other != whose:
                say(f"tenant {other} has a turn of this id, too (--tenant)")

        async def read() -> "TurnRecord":
            record = await read_turn(database, whose, turn_id)
            if record is None:
                raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
            return record

        async def look(_: float) -> dict[str, Any]:
            return as_document(await read())

        if wait is not None:
            await wait_until_ended(look, wait)
        record = await read()
        return record, await read_attempts(database, whose, turn_id), await read_messages(database, whose, turn_id)
