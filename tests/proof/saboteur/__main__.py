"""`python -m tests.proof.saboteur`: removes one check of the product at a time, and sees whether its test convicts it.

Each sabotage is done to a copy of the tree, and the test file that it names runs there. First all these files run in a copy
that nobody has touched: a test that fails anyway convicts nobody. A file that can't be collected, a fixture that breaks and a
test that hangs are no convictions: a test must have said what is wrong.

Exit code 0: each was convicted; 1: one was not; 2: the tests fail without a sabotage, too.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from bench.launch import end_on_sigterm
from tests.proof.saboteur.catalogue import SABOTAGES
from tests.proof.saboteur.sabotage import Sabotage

ROOT = Path(__file__).parents[3]

HANGS_SECONDS = 240.0
ENDS_SECONDS = 60.0
"""How long a run that was interrupted may take to stop its stack."""
_PYTEST = """
import signal, sys, pytest
# A shell starts what runs in its background with SIGINT ignored, and pytest would not hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))
"""
_CONVICTION = re.compile(r"^FAILED \S+?::(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    sabotage: Sabotage
    convicted_by: str | None
    """The test that has failed. None: nobody has convicted the saboteur."""
    why: str
    """What happened instead."""


def copy_tree(to: Path) -> Path:
    """What git knows of the tree, as it is now. Links stay links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return to


def run_tests(
    tree: Path, files: Sequence[str], *options: str, within_seconds: float = HANGS_SECONDS
) -> tuple[int | None, str]:
    """Runs these test files in the tree. The exit code, None if they hang; and what pytest has said."""
    given = ["-q", "--tb=no", "-p", "no:cacheprovider", *options, *(f"tests/{file}" for file in files)]
    # Before the installed package, which is the tree that nobody touches; also for processes that tests start.
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    running = subprocess.Popen(
        [sys.executable, "-c", _PYTEST, *given],
        cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = running.communicate(timeout=within_seconds)
        return running.returncode, said
    except subprocess.TimeoutExpired:
        # pytest stops its stack.
        running.send_signal(signal.SIGINT)
        with _killed_at_the_end(running):
            said, _ = running.communicate(timeout=ENDS_SECONDS)
        return None, said
    except BaseException:
        running.send_signal(signal.SIGINT)
        with _killed_at_the_end(running):
            running.wait(ENDS_SECONDS)
        raise


@contextmanager
def _killed_at_the_end(running: "subprocess.Popen[str]") -> Iterator[None]:
    try:
        yield
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)


def judge(tree: Path, sabotage: Sabotage) -> Verdict:
    """Commits the sabotage in the tree, lets its test look, and undoes it."""
    before = sabotage.do_to(tree)
    try:
        code, said = run_tests(tree, [sabotage.test], "-x", "-n", "0")
    finally:
        sabotage.undo_in(tree, before)
    if code == 1 and (found := _CONVICTION.search(said)):
        return Verdict(sabotage, found[1], "")
    why = {None: "the test hangs", 0: "every test passes"}.get(code, f"no test says so:\n{said[-2000:]}")
    return Verdict(sabotage, None, why)


def try_all(sabotages: Sequence[Sabotage], jobs: int, folder: Path) -> list[Verdict]:
    """Judges `jobs` sabotages at a time, each in a tree of its own, and prints each verdict."""
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        trees.put(copy_tree(folder / f"tree-{number}"))

    def judge_one(sabotage: Sabotage) -> Verdict:
        begun, tree = time.monotonic(), trees.get()
        try:
            verdict = judge(tree, sabotage)
        finally:
            trees.put(tree)
        word = "MISSED" if verdict.convicted_by is None else "convicted"
        seconds = time.monotonic() - begun
        print(f"{word:<10} {sabotage.name:<44} {verdict.convicted_by or verdict.why} ({seconds:.0f} s)", flush=True)
        return verdict

    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(judge_one, sabotages))


def passes_untouched(sabotages: Sequence[Sabotage], jobs: int, folder: Path) -> bool:
    """Whether the test files pass in a tree without any sabotage."""
    files = sorted({sabotage.test for sabotage in sabotages})
    begun = time.monotonic()
    code, said = run_tests(
        copy_tree(folder / "untouched"), files, "-n", str(jobs), within_seconds=HANGS_SECONDS * len(files)
    )
    print(
        f"saboteur: {len(files)} test files without a sabotage: exit code {code} ({time.monotonic() - begun:.0f} s)",
        flush=True,
    )
    if code != 0:
        print(said[-4000:])
    return code == 0


def main(arguments: Sequence[str]) -> int:
    """Tries what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.saboteur", description="Whether the tests convict.")
    parser.add_argument("names", nargs="*", help="only these sabotages")
    parser.add_argument("--sample", type=int, help="only so many, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="at the same time")
    parser.add_argument("--list", action="store_true", help="say what they are")
    asked = parser.parse_args(arguments)
    if asked.list:
        for one in SABOTAGES.values():
            print(f"{one.name:<44} turnstile/{one.file}  tests/{one.test}")
        return 0
    if unknown := set(asked.names) - SABOTAGES.keys():
        print(f"saboteur: there is no {', '.join(sorted(unknown))}; --list names them", file=sys.stderr)
        return 2
    sabotages = [SABOTAGES[name] for name in asked.names] or list(SABOTAGES.values())
    if asked.sample is not None:
        sabotages = random.Random(asked.seed).sample(sabotages, min(asked.sample, len(sabotages)))
    end_on_sigterm()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="saboteur-") as folder:
        if not passes_untouched(sabotages, asked.jobs, Path(folder)):
            return 2
        verdicts = try_all(sabotages, asked.jobs, Path(folder))
    convicted = sum(verdict.convicted_by is not None for verdict in verdicts)
    print(f"saboteur: {convicted} of {len(verdicts)} convicted in {time.monotonic() - begun:.0f} s (seed {asked.seed})")
    return 0 if convicted == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
