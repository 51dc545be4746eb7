"""`make load`: straight to the queue first, then through the API; a quarter of an hour each at 70 % of what can be done.

make load                                  the whole, which takes three quarters of an hour
make load ARGS='--only queue --minutes 2'  some of it
make load ARGS='--only flood'              one tenant sends 95 % of the load, for two minutes
make load ARGS='--only crowd'              2,000 clients poll, 1,000 follow turns, 300 dawdle, and ten times the load for a minute
make load ARGS='--quick'                   whether it works, in half a minute: figures that say nothing
make load ARGS='--render FOLDER'           writes a run's tables to docs/load.md

Exit code 1: the checker convicted, not everything had ended within the bound, or a flood has delayed another tenant by a second.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.launch import end_on_sigterm
from bench.results import command_line, look_around, write_surroundings
from bench.stage import ROOT, Stage, open_stage
from tests.proof.chaos.forking import ForkServer
from tests.proof.checker.__main__ import main as judge
from tests.proof.load import abuse
from tests.proof.load.abuse import MOST_DELAY_SECONDS
from tests.proof.load.load import run
from tests.proof.load.loaded import Loaded, read
from tests.proof.load.plan import Plan
from tests.proof.load.report import as_text, delay_seconds, flood_as_text, render

WAYS = ("queue", "api")
MINUTES = 15.0
SHARE = 0.7
QUICK_SECONDS = 3.0
PAGE = ROOT / "docs" / "load.md"


def main(arguments: Sequence[str]) -> int:
    asked = _parse(arguments)
    end_on_sigterm()
    if asked.render:
        render(asked.render, PAGE)
        return 0
    folder = asked.folder or ROOT / ".bench" / "load" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    _say(f"seed {asked.seed}, evidence in {folder}")
    plans = make_plans(asked)
    with open_stage(folder) as stage:
        asyncio.run(_run(plans, stage, folder))
        versions = {name: status.version or "" for name, status in stage.stack.status().items() if status.version}
    write_surroundings(folder, look_around(command_line("load", arguments, but="--folder"), versions))
    print(f"\n{as_text(folder)}\n", flush=True)
    # Everything else has ended: the evidence of a quarter of an hour fills gigabytes.
    convicted = [plan.name for plan in plans if judge([str(folder / plan.name), "--limit", "3"])]
    # On a machine that tests, a short flood says nothing.
    delayed = [] if asked.quick else [loaded for loaded in map(read, _floods(plans, folder)) if _is_delayed(loaded)]
    for loaded in delayed:
        _say(flood_as_text(loaded))
    _say(f"convicted: {', '.join(convicted)}" if convicted else "nothing lost, doubled or out of order")
    return 1 if convicted or delayed else 0


def _floods(plans: Sequence[Plan], folder: Path) -> list[Path]:
    return [folder / plan.name for plan in plans if plan.flooding]


def _is_delayed(loaded: Loaded) -> bool:
    return delay_seconds(loaded) >= MOST_DELAY_SECONDS


async def _run(plans: Sequence[Plan], stage: Stage, folder: Path) -> None:
    async with ForkServer.open() as forks:
        for plan in plans:
            await run(plan, stage, forks, folder / plan.name, _say)


def make_plans(asked: argparse.Namespace) -> list[Plan]:
    """Both ways in, in the order in which they are gone, or the one form that is asked for."""
    minutes = asked.minutes or abuse.MINUTES.get(asked.only, MINUTES)
    seconds = QUICK_SECONDS if asked.quick else 60 * minutes
    every = min(60.0, seconds / 3)
    plan = Plan(
        over_http=False,
        seconds=seconds,
        measure_seconds=30.0,
        warm_up_seconds=15.0,
        share=asked.share,
        burst_every=every,
        burst_seconds=every / 12,
        sample_seconds=min(5.0, max(0.5, seconds / 200)),
        seed=asked.seed,
    )
    if asked.quick:
        plan = replace(
            plan,
            measure_seconds=1.0,
            warm_up_seconds=0.5,
            workers=1,
            most_workers=2,
            slots=8,
            sessions=40,
            point_seconds=0.1,
            # Machines that test do other things, too.
            bound_seconds=120.0,
            crowd_scale=0.01,
        )
    match asked.only:
        case "flood":
            return [abuse.flood(plan)]
        case "crowd":
            return [abuse.crowd(plan)]
        case _:
            return [replace(plan, over_http=way == "api") for way in WAYS if asked.only in (None, way)]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make load", description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    of_forms = "".join(f"; {form} {minutes:g}" for form, minutes in abuse.MINUTES.items())
    parser.add_argument("--minutes", type=float, help=f"each way (default {MINUTES:g}{of_forms})")
    parser.add_argument(
        "--share", type=float, default=SHARE, help=f"of what can be done, asked for (default {SHARE:g})"
    )
    parser.add_argument(
        "--only", choices=(*WAYS, *abuse.FORMS), help="one of the two ways in, or of the forms of abuse"
    )
    parser.add_argument("--quick", action="store_true", help="both for some seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the evidence goes (default .bench/load/<time>)")
    parser.add_argument("--render", type=Path, metavar="FOLDER", help="write this run to docs/load.md")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(f"load: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
