"""`turnstile trace`: the turns of one trace as a tree, found by the trace id or by any of its turns."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.queries.trace_tree import Span

_TRACE_ID = re.compile(r"[0-9a-f]{32}")


def trace(
    which: Annotated[str, typer.Argument(metavar="TURN|TRACE", help="A turn's id, or a trace id of 32 hex digits.")],
    as_json: AsJson = False,
) -> None:
    """Show a trace: which turn came of which. A redriven turn is found by the trace of each of its runs."""
    from turnstile.ops.terminal.operator_access import load_settings, run

    trace_id, spans = run(_read(load_settings(), which))
    if as_json:
        print_json({"trace_id": trace_id, "turns": [asdict(span) for span in spans]})
        return
    columns = (
        "turn",
        "session",
        "seq",
        "queue",
        "call",
        "status",
        "attempt",
        "created",
        "finished",
        "span",
        "other traces",
    )
    print_table(
        columns,
        [
            (
                "  " * span.depth + str(span.id),
                span.session_id,
                span.seq,
                span.queue,
                span.child_key if span.kind == "turn" else span.kind,
                _status(span),
                span.attempt,
                span.created_at,
                span.finished_at,
                span.span_id,
                " ".join(span.other_traces),
            )
            for span in spans
        ],
    )


def _status(span: "Span") -> str:
    """The status, with the join that the turn waits for, if any."""
    return span.status if span.joining is None else f"{span.status}, joins {span.join_policy} of {len(span.joining)}"


async def _read(settings: "Settings", which: str) -> "tuple[str, list[Span]]":
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.queries.trace_tree import find_trace, read_trace

    async with operator_database(settings) as database:
        # 32 hex digits are a trace id: a turn id has hyphens.
        trace_id = which if _TRACE_ID.fullmatch(which) else await find_trace(database, _turn_id(which))
        spans = await read_trace(database, trace_id) if trace_id else []
    if not trace_id or not spans:
        raise CommandError(f"there is no turn or trace {which}", ExitCode.NOT_FOUND)
    return trace_id, spans


def _turn_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a turn's id nor a trace id") from None
