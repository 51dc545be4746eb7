"""`python -m tests.proof.planted_bugs`: each planted bug in a run of its own, and the checker's verdict on it.

An acquittal is worth something only if the checker would have convicted. Every bug must be convicted under the invariant that it
breaks; a run of the same kinds without any bug must be acquitted. Exit code 1 if the checker missed one.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.launch import end_on_sigterm
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.run import run
from tests.proof.chaos.scaled_settings import Options
from tests.proof.checker import check, load
from tests.proof.planted_bugs.catalogue import BY_NAME, CATALOGUE
from tests.proof.planted_bugs.planted_bug import PlantedBug
from turnstile.ops.dev.stack.stack import LocalStack, temporary

TRIES = 6
"""A bug needs its occasion. One that did not show gets another seed; one that never shows was not caught."""

CONTROL = "without any bug"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one bug."""

    name: str
    caught: bool
    tries: int
    convicted: Counter[str]
    seconds: float

    def __str__(self) -> str:
        found = ", ".join(f"{name} {many}" for name, many in self.convicted.most_common(6)) or "nothing"
        after = f" at try {self.tries}" if self.tries > 1 else ""
        return f"{'caught' if self.caught else 'MISSED':<7} {self.name:<36} {found}{after} ({self.seconds:.0f} s)"


@dataclass(slots=True)
class Court:
    """What all runs share."""

    stack: LocalStack
    forks: ForkServer
    folder: Path
    seed: int
    jobs: asyncio.Semaphore

    async def try_bug(self, bug: PlantedBug) -> Verdict:
        """Runs until it is convicted under its own invariant, TRIES times at most."""
        async with self.jobs:
            begun = time.monotonic()
            convicted: Counter[str] = Counter()
            for number in range(1, TRIES + 1):
                options = replace(bug.options, seed=self.seed + number - 1, plant=bug.name)
                convicted += await self._convict(options, f"{bug.name}-{number}")
                if convicted[bug.invariant]:
                    break
            seconds = time.monotonic() - begun
            return _told(Verdict(bug.name, bool(convicted[bug.invariant]), number, convicted, seconds))

    async def try_control(self) -> Verdict:
        """The kinds of all bugs together, and no bug."""
        async with self.jobs:
            begun = time.monotonic()
            kinds = sorted({kind for bug in CATALOGUE for kind in bug.options.kinds} - {"none"})
            options = Options(seed=self.seed, seconds=15.0, kinds=tuple(kinds), clients=6, between_faults_seconds=0.5)
            convicted = await self._convict(options, "control")
            return _told(Verdict(CONTROL, not convicted, 1, convicted, time.monotonic() - begun))

    async def _convict(self, options: Options, name: str) -> Counter[str]:
        folder = self.folder / name
        await run(options, folder, stack=self.stack, server=self.forks)
        return Counter(violation.invariant for violation in check(load(folder)))


def _told(verdict: Verdict) -> Verdict:
    print(verdict, flush=True)
    return verdict


async def try_all(bugs: Sequence[PlantedBug], seed: int, jobs: int, folder: Path) -> list[Verdict]:
    """All of them, `jobs` at a time, on one stack; the control last."""
    async with AsyncExitStack() as exits:
        stack, forks = await asyncio.gather(
            asyncio.to_thread(exits.enter_context, temporary(durable=False)),
            exits.enter_async_context(ForkServer.open()),
        )
        court = Court(stack, forks, folder, seed, asyncio.Semaphore(jobs))
        trials = [court.try_bug(bug) for bug in bugs]
        return [*await asyncio.gather(*trials, court.try_control())]


def main(arguments: Sequence[str]) -> int:
    """Tries what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.planted_bugs", description="Whether the checker convicts."
    )
    parser.add_argument("names", nargs="*", help="only these bugs")
    parser.add_argument("--sample", type=int, help="only so many, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="runs at the same time")
    parser.add_argument("--list", action="store_true", help="say what they are")
    parser.add_argument("--keep", action="store_true", help="keep the evidence")
    asked = parser.parse_args(arguments)
    if asked.list:
        for bug in CATALOGUE:
            print(f"{bug.name:<36} {bug.invariant:<5} {bug.what}")
        return 0
    if unknown := set(asked.names) - BY_NAME.keys():
        print(f"planted-bugs: there is no {', '.join(sorted(unknown))}; --list names them", file=sys.stderr)
        return 2
    bugs = [BY_NAME[name] for name in asked.names] or list(CATALOGUE)
    if asked.sample is not None:
        bugs = random.Random(asked.seed).sample(bugs, min(asked.sample, len(bugs)))
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="planted-bugs-"))
    print(f"planted-bugs: seed {asked.seed}, evidence in {folder}", flush=True)
    begun = time.monotonic()
    verdicts = asyncio.run(try_all(bugs, asked.seed, asked.jobs, folder))
    missed = [verdict.name for verdict in verdicts if not verdict.caught]
    caught = sum(verdict.caught for verdict in verdicts if verdict.name != CONTROL)
    print(f"planted-bugs: {caught} of {len(bugs)} caught in {time.monotonic() - begun:.0f} s (seed {asked.seed})")
    if missed:
        print(f"planted-bugs: MISSED: {', '.join(missed)}; evidence in {folder}")
        return 1
    if not asked.keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
