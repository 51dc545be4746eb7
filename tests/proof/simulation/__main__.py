"""python -m tests.proof.simulation [--seed N] [--turns N | --seconds S] [--jobs 2] [--trace]

Runs one seed, or seed after seed until one fails, and checks each. Exit code 1 if a seed fails; it is printed, with the command
that replays it.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import count, islice

from tests.proof.simulation.judging import Judged, digest, judge, run_seed

PROGRESS_SECONDS = 30.0


def main() -> int:
    options = _parse()
    if options.digest:
        sys.stdout.write(digest(run_seed(options.seed)[1]) + "\n")
        return 0
    if options.trace or (options.turns is None and options.seconds is None):
        judged = judge(options.seed, traced=options.trace)
        sys.stdout.write((judged.report or f"seed {judged.seed}: {judged.turns} turns, 0 violations") + "\n")
        return int(bool(judged.violations))
    return _run_many(options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--turns", type=int, help="seeds until so many turns have run")
    parser.add_argument("--seconds", type=float, help="seeds for so long, in real time")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--trace", action="store_true", help="one seed, with the product's log lines")
    parser.add_argument("--digest", action="store_true", help="one seed: only a hash over all that happened")
    return parser.parse_args()


class _Sum:
    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.told_at = self.begun
        self.seeds = self.turns = self.faults = 0
        self.cpu_seconds = self.longest_rest = 0.0
        self.kinds: set[str] = set()
        self.failed: list[int] = []
        self.convictions: Counter[str] = Counter()

    def add(self, judged: Judged) -> None:
        self.seeds += 1
        self.turns += judged.turns
        self.faults += judged.faults
        self.kinds |= judged.kinds
        self.cpu_seconds += judged.cpu_seconds
        self.longest_rest = max(self.longest_rest, judged.rest_seconds)
        if judged.violations:
            self.failed.append(judged.seed)
            self.convictions.update({violation.invariant for violation in judged.violations})
            sys.stdout.write(judged.report + "\n\n")

    def say(self) -> None:
        took = time.monotonic() - self.begun
        rate = self.turns / self.cpu_seconds if self.cpu_seconds else 0.0
        sys.stdout.write(
            f"{self.seeds} seeds, {self.turns} turns, {self.faults} faults of {len(self.kinds)} kinds,"
            f" {len(self.failed)} seeds failed {self.failed[:10]} {dict(self.convictions)};"
            f" {took:.0f} s, {rate:.0f} turns a CPU second; longest rest {self.longest_rest:.0f} virtual s\n"
        )
        sys.stdout.flush()
        self.told_at = time.monotonic()


def _run_many(options: argparse.Namespace) -> int:
    total = _Sum()
    seeds = count(options.seed)
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(judge, seed) for seed in islice(seeds, 2 * options.jobs)}
        while running:
            done, running = wait(running, timeout=PROGRESS_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
            more = 0 if _enough(options, total) else len(done)
            running |= {pool.submit(judge, seed) for seed in islice(seeds, more)}
            if time.monotonic() - total.told_at >= PROGRESS_SECONDS:
                total.say()
    total.say()
    return int(bool(total.failed))


def _enough(options: argparse.Namespace, total: _Sum) -> bool:
    if options.seconds is not None:
        return bool(total.failed) or time.monotonic() - total.begun >= options.seconds
    return bool(total.failed) or total.turns >= options.turns


if __name__ == "__main__":
    sys.exit(main())
