"""`turnstile top`: the system at a glance, live; with --json one snapshot."""

import importlib.util
import sys
from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import typer

from turnstile import distribution
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, since_option
from turnstile.ops.terminal.output import print_json
from turnstile.ops.top.snapshot import Snapshot, take_snapshot
from turnstile.ops.top.views import name_findings
from turnstile.ops.why.answer import as_lines
from turnstile.ops.why.look import explain_turn

EVERY_SECONDS = 2.0
SINCE_SECONDS = 300.0


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def top(
    every: Annotated[
        float, typer.Option(min=0.5, max=3600, metavar="SECONDS", help="Between two looks.")
    ] = EVERY_SECONDS,
    since: Annotated[float, since_option(SINCE_SECONDS)] = SINCE_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Show throughput, latencies, backlog, workers, running turns and failures, live. Changes nothing.

    The first line is what `turnstile doctor --no-dlq` finds, every 30 seconds. Failures are grouped by queue and error class;
    turns that operators have dropped are left out.

    Keys: 1 to 4 show queues, workers, turns, failures; Enter looks closer (a queue's or a worker's turns, what a turn waits for);
    Escape goes back; Space holds the screen; q quits.

    --json: one snapshot. stats (as `turnstile stats --json`), queues (as `turnstile queues list --json`), workers and running (as
    `turnstile workers --json`), failed (the groups of `turnstile dlq list --json`, with the turns that halt their sessions).
    """
    settings = load_settings()
    if as_json:
        print_json(asdict(operate(settings, take_snapshot, since)))
        return
    if not has_terminal():
        raise CommandError("the live screen needs a terminal; --json prints one snapshot", ExitCode.USAGE)
    if importlib.util.find_spec("textual") is None:
        line = f"the live screen needs Textual: {distribution.install('top')}, or use --json"
        raise CommandError(line, ExitCode.USAGE)
    operate(settings, _show, since, every)


async def _show(operator: Operator, since_seconds: float, every_seconds: float) -> None:
    from turnstile.ops.top.screen import TopScreen

    async def read() -> Snapshot:
        return await take_snapshot(operator, since_seconds)

    async def explain(turn_id: UUID) -> list[str]:
        answer = await explain_turn(operator.settings, operator.database, turn_id, None)
        return [f"there is no turn {turn_id} any more"] if answer is None else as_lines(answer)

    async def check() -> str:
        return name_findings(await look(operator.settings, dlq=False))

    await TopScreen(read, explain, check, every_seconds).run_async()
