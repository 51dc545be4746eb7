"""`turnstile doctor`: checks the system, prints the findings, and asks for confirmation before a repair."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import turnstile
from turnstile.ops.doctor.repair import plan, repair
from turnstile.ops.doctor.report import as_document, as_lines, exit_code, summary, where_pages_are
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.terminal.folding import terminal_columns
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson, Yes, confirm
from turnstile.ops.terminal.output import print_json, print_text, say

DOCS = Path(turnstile.__file__).with_name("docs").resolve()
"""The documents of the clone, or of the wheel."""


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is safe to repair.")] = False,
    yes: Yes = False,
    dlq: Annotated[bool, typer.Option("--dlq/--no-dlq", help="Also check the messages on dead-letter queues.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check a live system: services, queues, relays, workers, turns, dead letters.

    The check only reads, in short statements that lock nothing. In Redis it takes locks as a worker does: nothing else
    uses these locks, and they expire in a second. While a table is locked, it names the transaction and does not check
    the tables. Messages on a dead-letter queue are invisible to others while they are looked at (--no-dlq leaves them
    alone). Late means 10 s later than usual: shorter delays are not reported.

    --fix marks lost and stuck turns as due, so that a relay sends their wake-ups, deletes dead letters whose turn has
    moved on, and sets the fences of a restored database above those in Redis. It does not touch a running turn that no
    relay has marked as lost. It never changes a status, an attempt or a reply.

    Exit codes: 0 nothing is wrong, or everything was repaired; 5 something is wrong; 4 something could not be checked.

    --json: checked_at, complete, findings. A finding: severity, code, subject, tenant_id, session_id, turn_id, queue, since,
    meaning, detail, advice, remedy, fixed (null: no repair was tried).
    """
    settings = load_settings()
    checked_at = datetime.now(UTC)
    findings = asyncio.run(look(settings, dlq=dlq))
    if fix and (planned := plan(findings)):
        if not as_json and not yes:
            for line in as_lines(findings, terminal_columns()):
                say(line)
        confirm(f"Repair ({', '.join(f'{remedy} {many}' for remedy, many in planned.items())})?", yes=yes)
        findings = operate(settings, repair, findings)
    if as_json:
        print_json(as_document(findings, checked_at))
    else:
        for line in as_lines(findings, terminal_columns()):
            print_text(line)
    if (pages := where_pages_are(findings, DOCS)) is not None:
        say(pages)
    say(summary(findings))
    raise typer.Exit(exit_code(findings))
