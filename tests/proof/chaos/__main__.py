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
from pathlib import Path

from tests.proof.chaos.environment import end_on_sigterm
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
    options = Options(
        seed=asked.seed,
        seconds=asked.seconds,
        turns=asked.turns,
        faults=asked.faults,
        kinds=tuple(asked.kinds),
        fifo=asked.fifo,
        halt=asked.halt,
        clients=asked.clients,
        lanes=asked.lanes,
        between_faults_seconds=asked.between,
        bound_seconds=asked.bound,
        families=asked.families,
        plant=asked.plant,
    )
    print(f"chaos: seed {options.seed}, evidence in {folder}", flush=True)
    try:
        summary = asyncio.run(run(options, folder, report=_say))
    except ValueError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    _describe(summary)
    if judge([str(folder), "--limit", str(asked.limit)]) or summary.ill or summary.late:
        print(f"replay the plan of faults with: python -m tests.proof.chaos {' '.join(arguments) or '--seed 1'}")
        return 1
    if summary.unused and not options.is_calm:
        print(f"chaos: this run does not count, kinds never used: {', '.join(summary.unused)}")
        return 2
    if not asked.folder and not asked.keep:
        shutil.rmtree(folder)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.chaos", description="A chaos run with real processes.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="faults strike for at least so long")
    parser.add_argument("--turns", type=int, help="... and until so many turns have been accepted")
    parser.add_argument("--faults", type=int, help="... and until so many faults have struck")
    parser.add_argument("--kinds", nargs="*", default=[], help="names or prefixes; `none` for a calm run")
    parser.add_argument("--fifo", action="store_true", help="on a FIFO queue")
    parser.add_argument("--halt", action="store_true", help="on a queue where a FAILED turn halts its session")
    parser.add_argument("--clients", type=int, default=Options().clients)
    parser.add_argument("--lanes", type=int, default=Options().lanes, help="faults at the same time")
    parser.add_argument(
        "--between", type=float, default=Options().between_faults_seconds, help="seconds between the faults of a lane"
    )
    parser.add_argument("--bound", type=float, default=90.0, help="seconds within which all must settle afterwards")
    parser.add_argument(
        "--families",
        type=float,
        default=Options().families,
        help="share of turns that start others or do something once",
    )
    parser.add_argument("--plant", help="switch on a planted bug (tests/proof/planted_bugs)")
    parser.add_argument("--folder", help="where the evidence goes, and stays")
    parser.add_argument("--keep", action="store_true", help="keep the evidence of a clean run too")
    parser.add_argument("--limit", type=int, default=3, help="stories to print for each invariant")
    parser.add_argument("--list", action="store_true", help="name the kinds of faults")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(f"chaos: {text}", flush=True)


def _describe(summary: Summary) -> None:
    _say(
        f"{summary.accepted} turns accepted, {summary.faults} faults of {len(summary.struck)} kinds "
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
