"""The command line of the matrix. Exit code 1 if a cell does not end clean, with its name, how to run it alone, and its story."""

import argparse
import gc
import importlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.proof.crashpoints import passing, survey

if TYPE_CHECKING:
    from tests.proof.crashpoints.cell import Cell, Director, Result
    from turnstile.dev.stack.stack import LocalStack

SECONDS_PER_LINE = 10.0
LAST_CELL_SECONDS = 6.0

LATE_IMPORTS = (
    "turnstile.ops.terminal.operator_access",
    "turnstile.ops.dead_letters.redrive",
    "turnstile.relay.relay_process",
    "turnstile.producer.app",
    "turnstile.submission.callers_transaction",
    "sqlalchemy.ext.asyncio",
    "redis",
    "tests.proof.crashpoints.verdict",
    "turnstile.worker.worker_process",
)
"""What the forked processes would otherwise import one by one."""


def main() -> int:
    options = _parse()
    # Before the first module of the product is imported.
    survey.install(awaiting=passing.pass_await, entering=passing.pass_with, iterating=passing.pass_for)
    from tests.proof.crashpoints.matrix import all_cells, in_order, select_cells
    from tests.proof.crashpoints.points import read

    faults = [passing.FaultKind(name) for name in options.faults]
    cells = select_cells(in_order(all_cells(read().points, faults), options.seed), options.points)
    if options.list or not cells:
        print("\n".join(cell.name for cell in cells) or f"no cell is called like {options.points!r}; --list names them")
        return 0 if cells else 2
    return _play_on_a_stack(cells, options)


def _play_on_a_stack(cells: "list[Cell]", options: argparse.Namespace) -> int:
    from turnstile.dev.stack.stack import down, up

    home = Path(tempfile.mkdtemp(prefix="turnstile-crashpoints-"))
    clean = False
    try:
        stack = up(home / "stack", durable=False)
        _warm_up(stack)
        clean = _play(stack, home, cells, options)
    finally:
        down(home / "stack", purge=True)
        if clean and not options.keep:
            shutil.rmtree(home, ignore_errors=True)
    return 0 if clean else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.crashpoints", description=__doc__)
    faults = [fault.value for fault in passing.FAULTS]
    parser.add_argument("--seed", type=int, default=1, help="decides the order, and what a short run takes")
    parser.add_argument("--points", default="*", metavar="PATTERN", help="part of a cell's name, or a pattern with *")
    parser.add_argument("--faults", nargs="+", choices=faults, default=faults)
    parser.add_argument(
        "--short", type=float, metavar="SECONDS", help="a sample: one cell for each point, more if time is left"
    )
    parser.add_argument("--jobs", type=int, default=10, help="cells at a time; they mostly wait")
    parser.add_argument("--list", action="store_true", help="print the names of the cells and end")
    parser.add_argument("--keep", action="store_true", help="keep the evidence of clean cells too")
    return parser.parse_args()


def _warm_up(stack: "LocalStack") -> None:
    """Imports and prepares all that a forked process would otherwise spend its first second on. Leaves no connection open."""
    import boto3
    import botocore.session

    from tests.proof.chaos import audit
    from tests.proof.crashpoints.terms import TEMPLATE
    from tests.support.stacks.stack import as_superuser
    from turnstile.backends.postgres.place import DatabasePlace
    from turnstile.ops.migration_run import apply

    for module in LATE_IMPORTS:
        importlib.import_module(module)
    # What botocore reads from files stays in the session; each process makes clients of its own from it.
    os.environ.update(as_superuser(stack))
    session = botocore.session.get_session()
    boto3.session.Session(botocore_session=session).client("sqs", endpoint_url=stack.sqs.address).close()
    setattr(botocore.session, "get_session", lambda *_: session)  # noqa: B010 - mypy knows its signature
    url = stack.postgres.create_database(TEMPLATE)
    apply(DatabasePlace(url))
    audit.install(url)
    gc.collect()
    gc.freeze()


def _play(stack: "LocalStack", home: Path, cells: "list[Cell]", options: argparse.Namespace) -> bool:
    from tests.proof.crashpoints.matrix import Matrix

    matrix = Matrix(stack, home, jobs=options.jobs, seed=options.seed, keep=options.keep)
    began = time.monotonic()
    directors: Iterator[Callable[[Path], Director]] = (matrix.cell(cell) for cell in cells)
    if options.short is not None:
        # One cell for each point in any case, more while there is time.
        sample = len({cell.point for cell in cells})
        in_time = itertools.takewhile(lambda _: time.monotonic() - began < options.short - LAST_CELL_SECONDS, directors)
        directors = itertools.chain(itertools.islice(directors, sample), in_time)
    points = len({cell.point for cell in cells})
    print(f"seed {options.seed}: {len(cells)} cells of {points} points, {options.jobs} at a time", flush=True)
    results: list[Result] = []
    said_at = began
    try:
        for result in matrix.play(directors):
            results.append(result)
            _report(result, options)
            if time.monotonic() - said_at > SECONDS_PER_LINE:
                said_at = time.monotonic()
                failed = sum(bool(one.problems) for one in results)
                print(f"{said_at - began:6.0f} s  {len(results)} cells, {failed} not clean", flush=True)
    finally:
        matrix.stop()
    if matrix.replayed:
        print(f"{matrix.replayed} cells were played once more, because their fault had not struck")
    return _sum_up(results, options, time.monotonic() - began)


def _report(result: "Result", options: argparse.Namespace) -> None:
    if options.short is not None and not result.problems:
        print(f"  {result.seconds:4.1f} s  {result.name}", flush=True)
    if result.problems:
        print(f"\nNOT CLEAN: {result.name}", flush=True)
        print(f"alone: python -m tests.proof.crashpoints --seed {options.seed} --points '{result.name}'")
        print(*result.problems, sep="\n", end="\n\n", flush=True)


def _sum_up(results: "list[Result]", options: argparse.Namespace, seconds: float) -> bool:
    played, clean, killed = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        played[result.fault] += 1
        clean[result.fault] += not result.problems
        killed[result.fault] += result.killed_to_end
    for fault in sorted(played):
        after_kill = f", {killed[fault]} of them ended only when the victim was killed" if killed[fault] else ""
        print(f"{fault:10} {played[fault]:5} cells, {clean[fault]:5} clean{after_kill}")
    total = clean.total()
    print(f"seed {options.seed}: {len(results)} cells, {total} clean, {len(results) - total} not, in {seconds:.0f} s")
    return bool(results) and total == len(results)


if __name__ == "__main__":
    sys.exit(main())
