"""`turnstile trace`: the turns of one trace as a tree, found by the trace id or by any of its turns."""

import re
from typing import Annotated
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson
from turnstile.ops.terminal.output import Columns, print_json, print_table
from turnstile.ops.turns.trace_tree import Span, find_trace, read_trace

_TRACE_ID = re.compile(r"[0-9a-f]{32}")


def trace(
    which: Annotated[str, typer.Argument(metavar="TURN|TRACE", help="A turn's id, or a trace id of 32 hex digits.")],
    as_json: AsJson = False,
) -> None:
    """Show a trace: which turn started which. A redriven turn is found by the trace of each of its runs.

    --json: trace_id, turns (parents before their children). A turn: id, tenant_id, session_id, seq, queue, status, generation,
    attempt, span_id, parent_span_id, created_at, started_at, finished_at, kind, child_key (the call of its parent), joining (the
    children that it waits for), join_policy, depth (0: a root), other_traces (of its other runs).
    """
    # 32 hex digits are a trace id: a turn id has hyphens.
    asked = which if _TRACE_ID.fullmatch(which) else _turn_id(which)
    trace_id, spans = operate(load_settings(), _read, asked)
    if as_json:
        print_json({"trace_id": trace_id, "turns": spans})
        return
    columns: Columns = {
        "turn": lambda span: "  " * span.depth + str(span.id),
        "session": "session_id",
        "seq": "seq",
        "queue": "queue",
        "call": lambda span: span.child_key if span.kind == "turn" else span.kind,
        "status": _status,
        "attempt": "attempt",
        "created": "created_at",
        "finished": "finished_at",
        "span": "span_id",
        "other traces": lambda span: " ".join(span.other_traces),
    }
    print_table(columns, spans)


def _status(span: Span) -> str:
    """The status, with the join that the turn waits for, if any."""
    return span.status if span.joining is None else f"{span.status}, joins {span.join_policy} of {len(span.joining)}"


def _turn_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a turn's id nor a trace id") from None


async def _read(operator: Operator, which: UUID | str) -> tuple[str, list[Span]]:
    trace_id = await find_trace(operator.database, which) if isinstance(which, UUID) else which
    spans = await read_trace(operator.database, trace_id) if trace_id else []
    if not trace_id or not spans:
        raise CommandError(f"there is no turn or trace {which}", ExitCode.NOT_FOUND)
    return trace_id, spans
