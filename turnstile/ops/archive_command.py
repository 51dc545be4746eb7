"""`turnstile archive`: asks for confirmation, reports progress, then the result."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from turnstile.archive.move import Archived, archive_sessions, read_cutoff
from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record_alone
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import load_settings, operate, operator_database, operator_name
from turnstile.ops.terminal.options import DAY_SECONDS, AsJson, DryRun, Pause, Yes, confirm, parse_age
from turnstile.ops.terminal.output import Progress, plural, print_json, print_text, say, short_time


def parse_rest(text: str | float) -> float:
    """Parses an age of hours or more to seconds: an `m` that means minutes here may have been meant as months."""
    if str(text).strip().lower()[-1:] in {"s", "m"}:
        raise typer.BadParameter(f"{text!r} is not an age for an archive; try 90d, 12w or 36h")
    return parse_age(text)


def archive(
    older_than: Annotated[
        float,
        typer.Option(
            parser=parse_rest, metavar="AGE", help="Shortest time that a session must have been at rest: 90d, 12w, 36h."
        ),
    ],
    failed: Annotated[
        bool, typer.Option("--failed", help="Also archive FAILED turns. They can't be redriven afterwards.")
    ] = False,
    pause: Pause = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move the turns of sessions that have long been at rest out of the table, into its archive.

    A session is moved as a whole, and only if nothing depends on any of its turns. Its turns can still be found by
    their ids; lists and the session's history no longer contain them.

    The command can be stopped at any point and run again; two at once do no harm. Exit code 1: some sessions took too
    long and were not moved.

    --json: dry_run, cutoff, failed, sessions, turns, skipped (sessions that took too long, or met a lock).
    """
    settings = load_settings()
    least = max(1.0, settings.idempotency_days) * DAY_SECONDS
    if older_than < least:
        raise typer.BadParameter(
            f"at least {least / DAY_SECONDS:g}d: clients may repeat their requests for as long, and workers their settles",
            param_hint="--older-than",
        )
    cutoff = operate(settings, lambda operator: read_cutoff(operator.database, older_than))
    if not dry_run:
        confirm(_question(cutoff, failed=failed), yes=yes)
    moved = asyncio.run(_archive(settings, cutoff, failed=failed, pause_seconds=pause, dry_run=dry_run))
    document = {
        "dry_run": dry_run,
        "cutoff": cutoff,
        "failed": failed,
        "sessions": moved.sessions,
        "turns": moved.turns,
        "skipped": moved.skipped,
    }
    if as_json:
        print_json(document)
    else:
        verb = "would be moved" if dry_run else "moved"
        rest = "FAILED turns as well" if failed else "without FAILED turns"
        what = f"{plural(moved.turns, 'turn')} of {plural(moved.sessions, 'session')}"
        print_text(f"{what} {verb}, at rest since {short_time(cutoff)}, {rest}")
    if moved.skipped:
        say(f"{plural(moved.skipped, 'session')} took too long or met a lock: try again in a quieter hour")
        raise typer.Exit(ExitCode.FAILED)


async def _archive(
    settings: Settings, cutoff: datetime, *, failed: bool, pause_seconds: float | None, dry_run: bool
) -> Archived:
    total = Archived()
    verb = "would be moved" if dry_run else "moved"
    progress = Progress()
    async with operator_database(settings, pinned=True) as database:
        if not dry_run:
            await record_alone(database, _event(settings, cutoff, failed=failed))
        try:
            async for step in archive_sessions(
                database, cutoff, failed=failed, pause_seconds=pause_seconds, dry_run=dry_run
            ):
                total += step
                progress.say(f"{plural(total.turns, 'turn')} of {plural(total.sessions, 'session')} {verb}")
        except BaseException:
            say(f"broken off: {plural(total.turns, 'turn')} of {plural(total.sessions, 'session')} {verb}")
            raise
    return total


def _event(settings: Settings, cutoff: datetime, *, failed: bool) -> AuditEvent:
    # Before the first move, because a run may be killed at any point. How much it was, `archived_turns` says.
    which = ", FAILED turns as well" if failed else ""
    subject = f"sessions at rest since {short_time(cutoff)}{which}"
    return AuditEvent(kind=AuditKind.TURNS_ARCHIVED, actor=operator_name(settings), subject=subject)


def _question(cutoff: datetime, *, failed: bool) -> str:
    which = ", FAILED ones as well," if failed else ""
    return (
        f"Move the turns{which} of sessions that have been at rest since {short_time(cutoff)} into the archive? "
        "This cannot be undone."
    )
