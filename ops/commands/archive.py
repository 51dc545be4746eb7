"""`turnstile archive`: asks first, says how far it is, says what it did and what stays."""

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.input import check_finite, confirm
from turnstile.ops.terminal.output import AsJson, print_fields, print_json, say, short_time

if TYPE_CHECKING:
    from datetime import datetime

    from turnstile.config.settings import Settings
    from turnstile.ops.commands.archive_run import ArchiveResult

DAY_SECONDS = 86_400
_UNITS = {"h": 3600, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS}
_AGE = re.compile(r"([0-9]{1,6})([hdw])")
_LONGEST_SECONDS = 100 * 366 * DAY_SECONDS
_TELL_EVERY_SECONDS = 10.0


def parse_age(text: str | float) -> float:
    """Seconds: `90d`, `12w` or `36h`."""
    found = _AGE.fullmatch(str(text).strip().lower())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise typer.BadParameter(f"{text!r} is no age; try 90d, 12w or 36h")
    return float(seconds)


def archive(
    older_than: Annotated[
        float,
        typer.Option(parser=parse_age, metavar="AGE", help="How long a session must have been at rest: 90d, 12w, 36h."),
    ],
    queue: Annotated[str | None, typer.Option(help="Only sessions all of whose turns are of this queue.")] = None,
    tenant: Annotated[str | None, typer.Option()] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="FAILED turns as well. They can't be redriven afterwards.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="About so many turns in one statement.")] = 500,
    pause: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=3600,
            callback=check_finite,
            show_default=False,
            help="Seconds between statements.  [default: as long as one took]",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=1, help="Stop when about so many turns have gone.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move the turns of sessions that have long been at rest out of the table, into its archive by month.

    A session goes as a whole, and only if nothing of it is waited for by anybody. Its turns are still found by their ids;
    lists and the session's history are without them.

    Can be stopped at any point and run again; two at once do no harm. Exit code 1: some sessions took too long, and were left.

    --json: dry_run, cutoff, queue, tenant_id, failed, sessions, turns, moves, longest_move_seconds, busy, broken_off, kept
    (sessions that stay, by reason), months.
    """
    from turnstile.ops.terminal.operator_access import load_settings, run

    settings = load_settings()
    if queue is not None:
        settings.find_queue(queue)
    least = max(1.0, settings.idempotency_days) * DAY_SECONDS
    if older_than < least:
        raise typer.BadParameter(
            f"at least {least / DAY_SECONDS:g}d: clients may repeat their requests for as long, and workers their settles",
            param_hint="--older-than",
        )
    cutoff = run(_read_cutoff(settings, older_than))
    if not dry_run:
        # Between two loops: inside one, Ctrl-C would only cancel a task that waits for the keyboard.
        confirm(_question(cutoff, failed=failed), yes=yes)
    result = run(
        _archive(
            settings,
            {"cutoff": cutoff, "queue": queue, "failed": failed},
            tenant,
            None if dry_run else {"batch": batch, "pause_seconds": pause, "limit": limit},
        )
    )
    document = as_document(result, dry_run=dry_run, cutoff=cutoff, queue=queue, tenant_id=tenant, failed=failed)
    if as_json:
        print_json(document)
    else:
        print_fields({name: _short(value) for name, value in document.items()})
    if result.busy:
        say(f"somebody was at work in {result.busy} sessions: they are left to the next run")
    if result.broken_off:
        say(
            f"{result.broken_off} sessions took too long or met a lock, and were left: "
            "try a smaller --batch, or a quieter hour"
        )
        raise typer.Exit(ExitCode.FAILED)


async def _read_cutoff(settings: "Settings", older_than_seconds: float) -> "datetime":
    from turnstile.archive.move import read_cutoff
    from turnstile.ops.terminal.operator_access import operator_database

    async with operator_database(settings) as database:
        return await read_cutoff(database, older_than_seconds)


async def _archive(
    settings: "Settings", wanted: dict[str, Any], tenant_id: str | None, terms: dict[str, Any] | None
) -> "ArchiveResult":
    from turnstile.archive.move import ArchiveFilter
    from turnstile.ops.commands.archive_run import Archive
    from turnstile.ops.terminal.operator_access import operator_database

    async with operator_database(settings, pinned=True) as database:
        run = Archive(database, ArchiveFilter(**wanted), tenant_id=tenant_id)
        try:
            if terms is None:
                return await run.survey(_teller("would go"))
            return await run.run(**terms, tell=_teller("have gone"))
        except BaseException:
            if terms is not None:
                say(f"broken off: {_so_far(run.result, 'have gone')}")
            raise


def _teller(verb: str) -> "Callable[[ArchiveResult], None]":
    """Says now and then how far it is: a run may take hours, on a terminal or in a log."""
    told_at = time.monotonic()

    def tell(result: "ArchiveResult") -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= _TELL_EVERY_SECONDS:
            told_at = time.monotonic()
            say(_so_far(result, verb))

    return tell


def _so_far(result: "ArchiveResult", verb: str) -> str:
    return f"{result.turns} turns of {result.sessions} sessions {verb}, {result.kept.total()} sessions stay"


def as_document(result: "ArchiveResult", **asked: Any) -> dict[str, Any]:
    """What programs read. The same keys with and without --dry-run."""
    return {
        **asked,
        "sessions": result.sessions,
        "turns": result.turns,
        "moves": result.moves,
        "longest_move_seconds": round(result.longest_move_seconds, 3),
        "busy": result.busy,
        "broken_off": result.broken_off,
        "kept": dict(sorted(result.kept.items())),
        "months": dict(sorted(result.months.items())),
    }


def _question(cutoff: "datetime", *, failed: bool) -> str:
    which = ", FAILED ones as well," if failed else ""
    return (
        f"Move the turns{which} of sessions that have been at rest since {short_time(cutoff)} into the archive? "
        "There is no way back."
    )


def _short(value: Any) -> Any:
    return ", ".join(f"{name} {many}" for name, many in value.items()) or None if isinstance(value, dict) else value
