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
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.launch import end_on_sigterm
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.run import run
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.servers import COMMITS_HANG
from tests.proof.checker import check, load
from tests.proof.planted_bugs.catalogue import BUGS
from tests.proof.planted_bugs.planted_bug import PlantedBug
from turnstile.dev.stack.stack import LocalStack, temporary

TRIES = 6
"""A bug needs its occasion. One that did not show gets another seed; one that never shows was not caught."""


@dataclass(slots=True)
class Trials:
    """Runs `jobs` bugs at a time, on one stack, and prints what became of each."""

    stack: LocalStack
    forks: ForkServer
    folder: Path
    seed: int
    jobs: asyncio.Semaphore
    hanging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever lets COMMITs hang does so on the whole stack, and ends what others hang."""

    async def try_bug(self, bug: PlantedBug) -> bool:
        """Runs until it is convicted under its own invariant, TRIES times at most."""
        async with self.jobs:
            begun, convicted, tries = time.monotonic(), Counter[str](), 0
            while tries < TRIES and not convicted[bug.invariant]:
                options = replace(bug.options, seed=self.seed + tries, plant=bug.name)
                tries += 1
                convicted += await self._convict(options, f"{bug.name}-{tries}")
            return _report(bug.name, bool(convicted[bug.invariant]), convicted, begun, tries)

    async def try_without_any(self) -> bool:
        """The kinds of faults of all bugs together, and no bug."""
        async with self.jobs:
            begun = time.monotonic()
            kinds = sorted({kind for bug in BUGS.values() for kind in bug.options.kinds} - {"none"})
            options = Options(seed=self.seed, seconds=15.0, kinds=tuple(kinds), clients=6, between_faults_seconds=0.5)
            convicted = await self._convict(options, "control")
            return _report("without any bug", not convicted, convicted, begun)

    async def _convict(self, options: Options, name: str) -> Counter[str]:
        folder = self.folder / name
        async with self.hanging if COMMITS_HANG in options.kinds else nullcontext():
            await run(options, folder, stack=self.stack, server=self.forks)
        return Counter(violation.invariant for violation in check(load(folder)))


def _report(name: str, right: bool, convicted: Counter[str], begun: float, tries: int = 1) -> bool:
    found = ", ".join(f"{invariant} {many}" for invariant, many in convicted.most_common(6)) or "nothing"
    after = f" at try {tries}" if tries > 1 else ""
    seconds = time.monotonic() - begun
    print(f"{'caught' if right else 'MISSED':<7} {name:<36} {found}{after} ({seconds:.0f} s)", flush=True)
    return right


async def try_all(bugs: Sequence[PlantedBug], seed: int, jobs: int, folder: Path) -> tuple[list[bool], bool]:
    """Whether each was caught, and whether the run without any was acquitted."""
    async with AsyncExitStack() as exits:
        stack, forks = await asyncio.gather(
            asyncio.to_thread(exits.enter_context, temporary(durable=False)),
            exits.enter_async_context(ForkServer.open()),
        )
        trials = Trials(stack, forks, folder, seed, asyncio.Semaphore(jobs))
        *caught, acquitted = await asyncio.gather(*map(trials.try_bug, bugs), trials.try_without_any())
        return caught, acquitted


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
        for bug in BUGS.values():
            print(f"{bug.name:<36} {bug.invariant:<5} {bug.what}")
        return 0
    if unknown := set(asked.names) - BUGS.keys():
        print(f"planted-bugs: there is no {', '.join(sorted(unknown))}; --list names them", file=sys.stderr)
        return 2
    bugs = [BUGS[name] for name in asked.names] or list(BUGS.values())
    if asked.sample is not None:
        bugs = random.Random(asked.seed).sample(bugs, min(asked.sample, len(bugs)))
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="planted-bugs-"))
    print(f"planted-bugs: seed {asked.seed}, evidence in {folder}", flush=True)
    begun = time.monotonic()
    caught, acquitted = asyncio.run(try_all(bugs, asked.seed, asked.jobs, folder))
    seconds = time.monotonic() - begun
    print(f"planted-bugs: {sum(caught)} of {len(bugs)} caught in {seconds:.0f} s (seed {asked.seed})")
    if not (all(caught) and acquitted):
        print(f"planted-bugs: see MISSED above; evidence in {folder}")
        return 1
    if not asked.keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
