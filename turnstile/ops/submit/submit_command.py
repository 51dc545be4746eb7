"""`turnstile submit`: one turn over HTTP, or one or many with database credentials."""

import json
import sys
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from turnstile.client import Turn, TurnOptions
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.submit.submit_direct import (
    DirectResult,
    check_key,
    check_session,
    prepare,
    read_lines,
    submit_all,
    what_is_left,
)
from turnstile.ops.submit.submit_http import connect, explained
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode, explain
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, WaitSeconds
from turnstile.ops.terminal.output import plural, print_json, print_text, say
from turnstile.ops.turns.wait_for_turn import describe_end
from turnstile.statements.submit import Submission
from turnstile.submission.turn_request import MAX_PRIORITY_SECONDS
from turnstile.telemetry import tracing
from turnstile.turn.identifiers import DEFAULT_TENANT
from turnstile.turn.status import TurnStatus


def submit(
    session: Annotated[str | None, typer.Argument(metavar="SESSION", show_default=False)] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The user's message; - reads it from standard input.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", envvar="TURNSTILE_QUEUE", help="With --file: the queue of lines that name none."),
    ] = None,
    execute_at: Annotated[
        str | None,
        typer.Option(help="Not before this time, with its zone: YYYY-MM-DDThh:mm:ssZ, 366 days ahead at most."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeats with the same key submit one turn. With --file: a prefix.")
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL that gets a POST when the turn has ended: https, on a host that the deployment allows.",
        ),
    ] = None,
    priority: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help=f"A head start before other sessions while turns wait, {MAX_PRIORITY_SECONDS} seconds at most.",
        ),
    ] = None,
    wait: WaitSeconds = None,
    direct: Annotated[bool, typer.Option("--direct", help="Submit without the API, with DATABASE_URL.")] = False,
    file: Annotated[
        typer.FileBinaryRead | None,
        typer.Option(help="With --direct: JSON lines {session_id, input, …}; - is standard input."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="With --direct: the tenant of the new turns.  [default: default]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a turn and print its id, or with --wait its reply.

    --direct records the turns. A relay then gives them their places, and sends them.

    --json: the API's response, as its /docs describe it. With --direct: submitted (how many), turn_ids, replayed (how
    many had been submitted before), refused (session_id, error); if the database went away: unknown (turns that may
    have been submitted), left (turns that were not).
    """
    if not direct and (file is not None or tenant is not None):
        raise typer.BadParameter("--file and --tenant need --direct; the API knows the tenant from its key")
    if direct and wait is not None:
        raise typer.BadParameter("--wait needs the API; use turnstile status TURN --wait, which waits for any turn")
    if file is not None and any(given is not None for given in (session, text, execute_at, webhook, priority)):
        # Refused, not ignored: otherwise a batch that was scheduled for the night would run at once.
        raise typer.BadParameter(
            "--file excludes SESSION, TEXT, --execute-at, --webhook and --priority: put them into each line"
        )
    # The command says in one line what would be several of the log.
    settings = load_settings("critical")
    whose = DEFAULT_TENANT if tenant is None else tenant
    if file is not None:
        _submit_directly(settings, read_lines(file, settings, whose, idempotency_key, queue=queue), as_json=as_json)
        return
    if session is None or text is None:
        raise typer.BadParameter("give SESSION and TEXT (or --direct --file)")
    body = {
        # As Python decodes arguments. Both ways of submitting refuse the lone surrogates that come of bytes that are not UTF-8.
        "input": sys.stdin.buffer.read().decode(errors="surrogateescape") if text == "-" else text,
        "queue": queue,
        "execute_at": execute_at,
        "webhook_url": webhook,
        "priority_seconds": priority,
    }
    body = {name: value for name, value in body.items() if value is not None}
    if direct:
        submission = prepare(settings, whose, session, body, idempotency_key)
        _submit_directly(settings, [submission], as_json=as_json)
    else:
        _submit_over_http(settings, session, body, idempotency_key, wait, as_json=as_json)


def _submit_over_http(
    settings: Settings, session: str, body: dict[str, Any], key: str | None, wait: float | None, *, as_json: bool
) -> None:
    # Checked before the request: invalid characters in a header or a path would give an unclear HTTP error. Whether the id may
    # look like a person's is the API's to say.
    check_session(session, personal=True)
    if key is not None:
        check_key(key)
    options = cast("TurnOptions", {name: value for name, value in body.items() if name != "input"})
    key = key or uuid.uuid4().hex
    again = f"; repeat with --idempotency-key {key}: if the turn was accepted, it is not submitted twice"
    keyed = bool(settings.api_key)
    with connect(settings) as client:
        with explained(keyed=keyed, again=again):
            accepted = client.session(session).submit(body["input"], key=key, **options)
        turn_id = accepted["id"]
        if accepted["replayed"]:
            say(f"turn {turn_id} had been submitted before")
        if wait is None:
            if as_json:
                # What the body of the response says, and not what its headers add.
                print_json({name: value for name, value in accepted.items() if name != "replayed"})
            else:
                print_text(turn_id)
            return
        try:
            with explained(keyed=keyed):
                turn = client.wait(turn_id, wait)
        except BaseException:
            say(f"turn {turn_id} has not ended yet: see turnstile status {turn_id}")
            raise
    _report_ended(turn, as_json=as_json)


def _report_ended(turn: Turn, *, as_json: bool) -> None:
    status = TurnStatus(turn["status"])
    if as_json:
        print_json(turn)
    elif status is TurnStatus.SUCCEEDED:
        output = turn["output"]
        print_text(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False))
    if status is not TurnStatus.SUCCEEDED:
        error = turn["error"]
        said = (error["class"], error["message"]) if error else (None, None)
        say(describe_end(turn["id"], status, *said))
        raise typer.Exit(ExitCode.FAILED)


def _submit_directly(settings: Settings, submissions: Sequence[Submission], *, as_json: bool) -> None:
    try:
        result = operate(settings, _submit_all, submissions)
    except DatabaseUnavailableError as error:
        code, line = explain(error)
        raise CommandError(f"{line}; nothing was submitted: run it again later", code) from error
    if as_json:
        print_json(result.as_document())
    else:
        for turn_id in result.turn_ids:
            print_text(str(turn_id))
    say(_summary(result))
    for refused in result.refused[:5]:
        say(f"refused, session {refused['session_id']}: {refused['error']}")
    if result.broken_off is not None:
        code, line = explain(result.broken_off)
        raise CommandError(f"{line}; {what_is_left(result, submissions)}", code)
    if result.refused:
        raise CommandError(f"refused: {len(result.refused)} of {plural(len(submissions), 'turn')}")


def _summary(result: DirectResult) -> str:
    return f"{plural(len(result.turn_ids), 'turn')} submitted; submitted before: {result.replayed}"


async def _submit_all(operator: Operator, submissions: Sequence[Submission]) -> DirectResult:
    traces = tracing.start("turnstile-submit", wanted=operator.settings.exports_traces)
    try:
        return await submit_all(operator.database, submissions, traces)
    finally:
        tracing.flush(traces)
