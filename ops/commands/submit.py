"""`turnstile submit`: one turn over HTTP, or one or many with database credentials."""

import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.input import check_finite, check_key, check_session
from turnstile.ops.terminal.output import AsJson, print_json, progress, say
from turnstile.ops.terminal.wait_option import WAIT_SECONDS
from turnstile.turn.message import DEFAULT_TENANT
from turnstile.turn.on_busy import OnBusy

if TYPE_CHECKING:
    from turnstile.backends.postgres.database import Database
    from turnstile.config.settings import Settings
    from turnstile.ops.commands.submit_direct import DirectResult
    from turnstile.statements.submit import Submission
    from turnstile.submit.submitting import Submitting


@dataclass(frozen=True, slots=True)
class _Submitted:
    document: dict[str, Any]
    read: Callable[[float], Awaitable[dict[str, Any]]]
    """Returns the turn. May wait up to the given seconds for its end."""


def submit(
    session: Annotated[str | None, typer.Argument(metavar="SESSION", show_default=False)] = None,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say; - reads it from standard input.", show_default=False),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            "-q",
            envvar="TURNSTILE_QUEUE",
            help="With --file: of the lines that name none.",
            show_default=False,
        ),
    ] = None,
    execute_at: Annotated[
        str | None,
        typer.Option(help="Not before this time, with its zone: YYYY-MM-DDThh:mm:ssZ, 366 days ahead at most."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A repeat with the same key is the same turn. With --file: a prefix.")
    ] = None,
    turn_id: Annotated[UUID | None, typer.Option(help="The id the turn shall have.")] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="An object kept with the turn.")] = None,
    on_busy: Annotated[
        OnBusy,
        typer.Option(help="If the session is busy: wait in line, be refused, cancel what is open, or join what waits."),
    ] = OnBusy.ENQUEUE,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Who is told when the turn has ended: https, a host that the deployment allows."
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="[SECONDS]",
            callback=check_finite,
            help=f"Wait for the reply and print it; {WAIT_SECONDS:g} seconds if none are named.",
        ),
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Without the API, with DATABASE_URL and AWS access.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            allow_dash=True,
            help="With --direct: JSON lines {session_id, input, …}; - is standard input.",
            show_default=False,
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="With --direct: whose turns; `default` if none is named.", show_default=False)
    ] = None,
    api_url: Annotated[str | None, typer.Option(envvar="TURNSTILE_API_URL", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a turn and print its id, or with --wait its reply."""
    from turnstile.ops.terminal.operator_access import load_settings, run

    if tenant is not None and not direct:
        raise typer.BadParameter("--tenant goes with --direct; the API knows the tenant by its key")
    whose = DEFAULT_TENANT if tenant is None else tenant
    if file is not None:
        if not direct or session is not None or wait is not None:
            raise typer.BadParameter("--file goes with --direct, without SESSION, TEXT and --wait")
        _refuse_for_a_file(on_busy, execute_at=execute_at, turn_id=turn_id, metadata=metadata, webhook=webhook)
        _submit_file(load_settings(), whose, file, queue, key_prefix=idempotency_key, as_json=as_json)
        return
    if session is None or text is None:
        raise typer.BadParameter("SESSION and TEXT are needed (or --direct --file)")
    body = {
        "input": _read_standard_input() if text == "-" else text,
        "queue": queue,
        "execute_at": execute_at,
        "turn_id": None if turn_id is None else str(turn_id),
        "metadata": _read_metadata(metadata),
        "webhook_url": webhook,
        "on_busy": None if on_busy is OnBusy.ENQUEUE else on_busy.value,
    }
    body = {name: value for name, value in body.items() if value is not None}
    # Checked before the request: invalid characters in a header or a path would give an unclear HTTP error.
    check_session(session)
    if idempotency_key is not None:
        check_key(idempotency_key)
    settings = load_settings(api_url=api_url)
    way = (
        _directly(settings, whose, session, body, idempotency_key)
        if direct
        else _over_http(settings, session, body, idempotency_key)
    )
    code = run(_submit_one(way, wait, as_json=as_json))
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def _refuse_for_a_file(on_busy: OnBusy, **given: object) -> None:
    # Refused, not ignored: otherwise a batch that was scheduled for the night would run at once.
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if named:
        raise typer.BadParameter(f"{', '.join(named)}: with --file each line says so for itself, or not at all")
    if on_busy is not OnBusy.ENQUEUE:
        raise typer.BadParameter("--on-busy is for clients of the API; --direct always enqueues")


def _read_standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8", ExitCode.USAGE) from None


def _read_metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="--metadata")
    return value


async def _submit_one(way: AbstractAsyncContextManager[_Submitted], wait: float | None, *, as_json: bool) -> ExitCode:
    import asyncio

    from turnstile.ops.commands.turn_waiting import report_ended, wait_until_ended

    async with way as submitted:
        turn_id = str(submitted.document["id"])
        if wait is None:
            if as_json:
                print_json(submitted.document)
            else:
                typer.echo(turn_id)
            return ExitCode.OK
        try:
            turn = await wait_until_ended(submitted.read, wait)
        except asyncio.CancelledError:
            say(f"turn {turn_id} goes on without you: turnstile status {turn_id}")
            raise
    return report_ended(turn_id, turn, as_json=as_json)


@asynccontextmanager
async def _over_http(
    settings: "Settings", session: str, body: dict[str, Any], key: str | None
) -> "AsyncIterator[_Submitted]":
    from turnstile.ops.commands.submit_http import open_api

    # A chosen turn id identifies a repeat. A random key would make the repeat another request.
    key = key or (f"turn-{body['turn_id']}" if "turn_id" in body else uuid.uuid4().hex)
    async with open_api(settings) as api:
        accepted, replayed = await api.submit(session, body, key)
        if replayed:
            say(f"turn {accepted['id']} had been submitted before")
        yield _Submitted(accepted, lambda left: api.read(accepted["id"], wait_seconds=left))


@asynccontextmanager
async def _directly(
    settings: "Settings", tenant: str, session: str, body: dict[str, Any], key: str | None
) -> "AsyncIterator[_Submitted]":
    from turnstile.ops.commands.submit_direct import prepare
    from turnstile.queries.turns import read_turn
    from turnstile.turn.conversation import join_inputs

    submission = prepare(settings, tenant, session, body, key)
    async with _open_direct(settings) as (database, submitting):
        result = await _submit_all(submitting, [submission])
        if result.refused:
            raise CommandError(result.refused[0]["error"])
        turn_id = result.turn_ids[0]

        async def read(_: float) -> dict[str, Any]:
            record = await read_turn(database, tenant, turn_id)
            if record is None:
                raise CommandError(f"there is no turn {turn_id} of tenant {tenant}", ExitCode.NOT_FOUND)
            error = {"class": record.error_class, "message": record.error} if record.error_class else None
            shown = {name: value for name, value in asdict(record).items() if name != "inputs"}
            return {**shown, "input": join_inputs(record.inputs or ()), "error": error}

        yield _Submitted({"id": turn_id, "replayed": bool(result.replayed)}, read)


def _submit_file(
    settings: "Settings", tenant: str, file: Path, queue: str | None, *, key_prefix: str | None, as_json: bool
) -> None:
    from turnstile.ops.commands.submit_direct import read_lines
    from turnstile.ops.terminal.operator_access import run

    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", ExitCode.USAGE) from error
    submissions = read_lines(content.split(b"\n"), settings, tenant, key_prefix, queue=queue)

    async def submit_them() -> "DirectResult":
        async with _open_direct(settings) as (_, submitting):
            return await _submit_all(submitting, submissions)

    result = run(submit_them())
    if as_json:
        print_json({"submitted": len(result.turn_ids), **asdict(result)})
    else:
        for turn_id in result.turn_ids:
            typer.echo(str(turn_id))
        say(f"{len(result.turn_ids)} turns submitted, {result.replayed} of them had been before")
    for refused in result.refused[:5]:
        say(f"refused, session {refused['session_id']}: {refused['error']}")
    if result.refused:
        raise CommandError(f"{len(result.refused)} of {len(submissions)} turns were refused")


async def _submit_all(submitting: "Submitting", submissions: "Sequence[Submission]") -> "DirectResult":
    from turnstile.ops.commands.submit_direct import submit_all

    with progress() as begin:
        result = await submit_all(submitting, submissions, report=begin("submitting", "turns"))
    if result.unsent:
        say(f"SQS did not take {result.unsent} wake-ups: the relay sends them, nothing is to be done")
    return result


@asynccontextmanager
async def _open_direct(settings: "Settings") -> "AsyncIterator[tuple[Database, Submitting]]":
    from turnstile.message_queue import MessageQueues
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.submit.submitting import Submitting
    from turnstile.submit.wake_ups import WakeUpSending

    queues = MessageQueues(settings)
    try:
        async with operator_database(settings) as database:
            yield database, Submitting(settings, database, WakeUpSending(queues, list(settings.queues_by_name)))
    finally:
        await queues.close()
