"""`make bench`: experiments in interleaved rounds; tables on standard output, results in a folder.

make bench                                   everything, which takes an hour or two
make bench ARGS='--only drain,start'         some of it
make bench ARGS='--quick'                    whether it works: figures that say nothing, in under a minute
make bench ARGS='--render .bench/results/x'  writes a run's tables to docs/performance.md
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench import peers
from bench.contenders import CONTENDERS
from bench.experiment import Experiment, Sample, Samples, Scale
from bench.experiments import ALL
from bench.launch import NotMeasuredError, end_on_sigterm
from bench.rendering import as_text, render
from bench.results import command_line, look_around, write_samples, write_surroundings
from bench.stage import ROOT, Stage, open_stage

ROUNDS = 3
QUICK = ("drain", "calls", "start", "burst", "telemetry")
QUICK_CONTENDERS = "ours,handmade,floor"
PAGE = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str]) -> int:
    asked = _parse(arguments)
    end_on_sigterm()
    if asked.render:
        try:
            render(asked.render, asked.page)
        except (OSError, ValueError) as error:
            sys.exit(f"make bench: {error}")
        return 0
    names = asked.only.split(",") if asked.only else QUICK if asked.quick else [one.name for one in ALL]
    chosen = [experiment for experiment in ALL if experiment.name in names]
    if unknown := set(names) - {one.name for one in ALL}:
        sys.exit(f"make bench: there is no experiment {', '.join(sorted(unknown))}")
    named = asked.contenders or (QUICK_CONTENDERS if asked.quick else "")
    contenders = tuple(named.split(",")) if named else ()
    if unknown := set(contenders) - set(CONTENDERS):
        sys.exit(f"make bench: there is no contender {', '.join(sorted(unknown))}")
    folder = asked.out or ROOT / ".bench" / "results" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    if not asked.quick:
        peers.install()
    scale = Scale(quick=asked.quick, full=asked.full, contenders=contenders)
    rounds = asked.rounds or (1 if asked.quick else ROUNDS)
    folder.mkdir(parents=True, exist_ok=True)
    with open_stage(folder) as stage:
        found = measure(stage, chosen, scale, rounds, folder)
        versions = {name: status.version or "" for name, status in stage.stack.status().items() if status.version}
    surroundings = look_around(command_line("bench", arguments, but="--out"), versions)
    write_surroundings(folder, surroundings)
    print(f"\n{as_text(surroundings, found)}\n\nresults: {folder}")
    return 0


def measure(
    stage: Stage, experiments: Sequence[Experiment], scale: Scale, rounds: int, folder: Path
) -> list[tuple[Experiment, Samples]]:
    """All rounds of each experiment, one experiment after the other; a round has every contender once."""
    found = []
    for experiment in experiments:
        samples: list[Sample] = []
        for number in range(rounds):
            try:
                for sample in experiment.run(stage, scale):
                    samples.append(replace(sample, round=number))
                    print(_line(experiment, samples[-1]), flush=True)
            except NotMeasuredError as error:
                samples.append(Sample(contender="", note=str(error), round=number))
                print(f"{experiment.name}: {error}", flush=True)
            write_samples(folder, experiment, samples)
        found.append((experiment, Samples(samples)))
    return found


def _line(experiment: Experiment, sample: Sample) -> str:
    figures = [
        f"{column.title} {sample.figures[column.figure]:.{column.digits}f}"
        for column in experiment.columns
        if column.figure in sample.figures
    ]
    who = " ".join(filter(None, (experiment.name, f"#{sample.round + 1}", sample.case, sample.contender)))
    return f"{who}: {', '.join([*figures, *filter(None, [sample.note])])}"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", metavar="NAMES", help=f"experiments: {','.join(one.name for one in ALL)}")
    parser.add_argument("--contenders", metavar="NAMES", help=f"only these of {','.join(CONTENDERS)}")
    parser.add_argument("--rounds", type=int, help=f"how often each is measured (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the turns, one round, without the peers")
    parser.add_argument(
        "--full", action="store_true", help="growth to 5,000,000 ended turns and an hour of churn, a burst of 200,000"
    )
    parser.add_argument("--out", type=Path, help="folder of the results (default .bench/results/<time>)")
    parser.add_argument("--render", type=Path, metavar="FOLDER", help="write these results to the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="which one, if not docs/performance.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
