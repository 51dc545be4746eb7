"""`turnstile reseal`: asks for confirmation, reports progress, then the result."""

import asyncio

import typer

from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.ops.reseal.reseal import Resealed, reseal_all
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import load_settings, operator_database
from turnstile.ops.terminal.options import AsJson, DryRun, Pause, Yes, confirm
from turnstile.ops.terminal.output import Progress, plural, print_json, print_text, say


def reseal(
    pause: Pause = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Bring stored contents under the key that seals: plain ones, and those of other keys.

    Needs the file of TURNSTILE_SEALING_KEYS_FILE with all keys, and the role that `turnstile migrate` has. Go through the
    table and the archive once, in small statements, while everything runs. The command can be stopped at any point and run again;
    two at once do no harm.

    Exit code 1: some rows can't be opened, or were locked. The fingerprints of submits and what is in Redis are not sealed anew:
    both expire by themselves.

    --json: dry_run, key (that seals), read, sealed, skipped (changed or locked meanwhile), unreadable (rows), reasons.
    """
    settings = load_settings()
    key_id = read_contents(settings).sealing_key_id
    if key_id is None:
        raise CommandError(
            'no key seals: name a file in TURNSTILE_SEALING_KEYS_FILE, and a key of it in "seal_with"', ExitCode.USAGE
        )
    if not dry_run:
        confirm(f"Seal all stored contents under key {key_id}?", yes=yes)
    done = asyncio.run(_reseal(settings, pause_seconds=pause, dry_run=dry_run))
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "key": key_id,
                "read": done.read,
                "sealed": done.sealed,
                "skipped": done.skipped,
                "unreadable": done.unreadable,
                "reasons": sorted(done.reasons),
            }
        )
    else:
        verb = "would be sealed" if dry_run else "sealed"
        print_text(f"{done.sealed} of {plural(done.read, 'row')} {verb} under key {key_id}")
    for reason in sorted(done.reasons):
        say(f"can't be opened: {reason}")
    if done.skipped:
        say(f"{plural(done.skipped, 'row')} changed or locked meanwhile: run it again")
    if done.skipped or done.unreadable:
        raise typer.Exit(ExitCode.FAILED)


async def _reseal(settings: Settings, *, pause_seconds: float | None, dry_run: bool) -> Resealed:
    total = Resealed()
    progress = Progress()
    async with operator_database(settings, pinned=True) as database:
        try:
            async for page in reseal_all(database, pause_seconds=pause_seconds, dry_run=dry_run):
                total += page
                progress.say(f"{total.sealed} of {plural(total.read, 'row')} sealed")
        except BaseException:
            say(f"broken off: {total.sealed} of {plural(total.read, 'row')} sealed; run it again")
            raise
    return total
