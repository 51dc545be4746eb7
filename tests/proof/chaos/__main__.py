"""`python -m tests.proof.chaos`: a chaos run and its verdict. `--list` names the kinds of faults.

Exit code 0: nothing was violated and every kind of fault was used; 1: convicted, the stories are printed; 2: the run does
not count, because it could not be made or a kind was not used.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from bench.launch import end_on_sigterm
from tests.proof.chaos.nemesis import KINDS
from tests.proof.chaos.run import Summary, run
from tests.proof.chaos.scaled_settings import Options
from tests.proof.checker.__main__ import main as judge


def main(arguments: Sequence[str]) -> int:
    asked = _parse(arguments)
    if asked.list:
        print(*(kind.name for kind in KINDS), sep="\n")
        return 0
    end_on_sigterm()
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="chaos-run-"))
    names = {field.name for field in fields(Options)}
    asked.kinds = tuple(asked.kinds)
    options = Options(**{name: value for name, value in vars(asked).items() if name in names})
    _say(f"seed {options.seed}, evidence in {folder}")
    try:
        summary = asyncio.run(run(options, folder, report=_say))
    except ValueError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    _describe(summary)
    if judge([str(folder), "--limit", "3"]) or summary.ill or summary.late:
        print(f"replay the plan of faults with: python -m tests.proof.chaos {' '.join(arguments) or '--seed 1'}")
        return 1
    if not summary.accepted:
        _say("this run does not count: no turn was accepted")
        return 2
    if summary.unused and not options.is_calm:
        _say(f"this run does not count, kinds never used: {', '.join(summary.unused)}")
        return 2
    if not asked.folder:
        shutil.rmtree(folder)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    usual = Options()
    parser = argparse.ArgumentParser(prog="python -m tests.proof.chaos", description="A chaos run with real processes.")
    add = parser.add_argument
    add("--seed", type=int, default=usual.seed)
    add("--seconds", type=float, default=usual.seconds, help="faults strike for at least so long")
    add("--turns", type=int, help="... and until so many turns have been accepted")
    add("--faults", type=int, help="... and until so many faults have struck")
    add("--kinds", nargs="*", default=[], help="names or prefixes; `none` for a calm run")
    add("--fifo", action="store_true", help="on a FIFO queue")
    add("--halt", action="store_true", help="on a queue where a FAILED turn halts its session")
    add("--places", type=int, help="a limit: turns of one tenant that all workers run at a time")
    add("--erasures", type=float, default=usual.erasures, help="the share of calls that erase a session")
    add(
        "--transactions",
        type=float,
        default=usual.transactions,
        help="the share of turns that applications submit in transactions of their own",
    )
    add("--rotations", type=int, default=usual.rotations, help="seal contents, and replace the key so often meanwhile")
    add("--clients", type=int, default=usual.clients)
    add("--lanes", type=int, default=usual.lanes, help="faults at the same time")
    add(
        "--between",
        type=float,
        default=usual.between_faults_seconds,
        dest="between_faults_seconds",
        help="seconds between the faults of a lane",
    )
    add("--folder", help="where the evidence goes, and stays")
    add("--list", action="store_true", help="name the kinds of faults")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(f"chaos: {text}", flush=True)


def _describe(summary: Summary) -> None:
    _say(
        f"{summary.accepted} turns accepted, {summary.struck.total()} faults of {len(summary.struck)} kinds "
        f"in {summary.seconds:.0f} s; {'at rest' if summary.rested else 'NOT at rest within the bound'}"
    )
    for name, times in sorted(summary.struck.items()):
        print(f"    {times:5d}  {name}")
    for finding in summary.ill:
        _say(f"the doctor found, at rest: {finding}")
    if summary.late:
        _say(f"killed, because SIGTERM did not end them: {', '.join(summary.late)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
