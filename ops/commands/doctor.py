"""`turnstile doctor`: looks, looks again, says what it found, and asks before it repairs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnstile.ops.terminal.input import check_finite, confirm
from turnstile.ops.terminal.output import AsJson, print_json, say

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.ops.doctor.collect import Scope
    from turnstile.ops.doctor.findings import Finding

DAY_SECONDS = 86_400
CENTURY_HOURS = 876_600

Found = tuple["list[Finding]", "list[str]"]


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is safe to repair.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    settle: Annotated[
        float, typer.Option(min=0, max=600, callback=check_finite, help="Seconds to the second look.")
    ] = 3.0,
    margin: Annotated[
        float,
        typer.Option(
            min=0,
            max=DAY_SECONDS,
            callback=check_finite,
            help="Seconds by which something must be later than usual to count.",
        ),
    ] = 10.0,
    recent: Annotated[
        float,
        typer.Option(min=0, max=CENTURY_HOURS, callback=check_finite, help="Look at the replies of so many hours."),
    ] = 24.0,
    dlq: Annotated[
        bool, typer.Option("--dlq/--no-dlq", help="Look at the messages on dead-letter queues as well.")
    ] = True,
    letters: Annotated[int, typer.Option(min=1, help="At most so many messages of each DLQ.")] = 1000,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, help="Show at most so many of each kind.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Check a system while it works: turns, sessions, locks, workers, queues, dead letters.

    Reads only, in short statements that lock nothing. One thing is seen by others: messages on a dead-letter queue are
    invisible to them while they are looked at (--no-dlq leaves them alone). What may be in motion counts if it is still
    the same at a second look.

    --fix owes and sends wake-ups and dead letters, deletes dead letters whose turn has moved on, deletes locks that
    would stand for ever, and forgets workers that are gone. It never changes a status, an attempt or a reply.

    Exit codes: 0 nothing wrong, or all of it repaired; 5 something is wrong; 4 something could not be looked at. Of
    severity `info` none counts.

    --json: checked_at, complete, fix, dry_run, counts by severity, fixed, findings, more (not shown, by code), failures.
    A finding: severity, code, subject, tenant_id, session_id, turn_id, queue, since, meaning, detail, advice, remedy,
    fixed (null: nothing was tried).
    """
    from datetime import UTC, datetime

    from turnstile.ops.doctor.collect import Scope
    from turnstile.ops.doctor.repair import plan
    from turnstile.ops.doctor.report import as_document, as_lines, summary
    from turnstile.ops.doctor.rules import exit_code
    from turnstile.ops.terminal.operator_access import load_settings, run

    if dry_run and not fix:
        raise typer.BadParameter("--dry-run goes with --fix: without it nothing is changed anyway")
    settings = load_settings()
    scope = Scope(margin_seconds=margin, recent_hours=recent, letters=letters if dlq else 0)
    checked_at = datetime.now(UTC)
    findings = run(_examine(settings, scope, settle))
    failures: list[str] = []
    planned = plan(findings)
    if fix and planned:
        what = ", ".join(f"{remedy} {many}" for remedy, many in planned.items())
        if dry_run:
            say(f"would be repaired: {what}")
        else:
            # Between the two loops: inside one, Ctrl-C would only cancel a task that waits for the keyboard.
            if not as_json and not yes:
                for line in as_lines(findings, limit=limit):
                    say(line)
            confirm(f"Repair what can be repaired ({what})?", yes=yes)
            findings, failures = run(_repair(settings, scope, findings))
    if as_json:
        print_json(
            as_document(findings, limit=limit, fix=fix, dry_run=dry_run, checked_at=checked_at, failures=failures)
        )
    else:
        for line in as_lines(findings, limit=limit):
            typer.echo(line)
    for failure in failures:
        say(failure)
    say(summary(findings))
    raise typer.Exit(exit_code(findings))


async def _examine(settings: "Settings", scope: "Scope", settle_seconds: float) -> "list[Finding]":
    import asyncio

    from turnstile.ops.doctor.collect import Examination
    from turnstile.ops.doctor.rules import is_blind, seen_twice

    async with Examination.open(settings, scope) as examination:
        first = await examination.look()
        restless = sum(finding.kind.transient for finding in first)
        if not restless:
            return first
        say(f"{restless} findings may be in motion: looking again in {settle_seconds:g} s")
        await asyncio.sleep(settle_seconds)
        second = await examination.look()
        if is_blind(first) and not is_blind(second):
            # What the first could not see, the second has seen once: as if it were in motion, nothing would be told of it.
            say(f"the first look could not see everything: looking once more in {settle_seconds:g} s")
            await asyncio.sleep(settle_seconds)
            first, second = second, await examination.look()
        return seen_twice(first, second)


async def _repair(settings: "Settings", scope: "Scope", findings: "Sequence[Finding]") -> Found:
    from turnstile.ops.doctor.collect import Examination
    from turnstile.ops.doctor.repair import Repair
    from turnstile.ops.terminal.operator_access import operator_database

    async with (
        Examination.open(settings, scope) as examination,
        operator_database(settings) as database,
    ):
        repair = Repair(settings, database, examination.queues, examination.locks)
        return await repair.run(findings), repair.failures
