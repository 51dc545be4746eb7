"""Which cells there are, which of them a short run takes, and playing many at a time."""

import fnmatch
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.proof.crashpoints.cell import Cell, Director, Result, play_in_child
from tests.proof.crashpoints.passing import FAULTS, FaultKind
from tests.proof.crashpoints.points import Point
from tests.proof.crashpoints.stories import STORIES
from turnstile.dev.stack.stack import LocalStack

MOST_TRIES = 3
"""How often a cell is played at most whose fault did not strike. On a machine that is too busy an answer of Redis comes too late
at times, and the victim goes another way than to the point."""

FORK = multiprocessing.get_context("fork")

CELL_SECONDS = 120.0
"""A cell that takes longer hangs in the harness itself."""


def all_cells(points: Sequence[Point], faults: Sequence[FaultKind] = FAULTS) -> list[Cell]:
    """Every point with every fault that can strike there, Redis kept and flushed, on standard and FIFO queues.

    Flushed only where the victim has anything in Redis: API, relay and redrive know nothing of it.
    """
    return [
        Cell(point=point, fault=fault, flush=flush, fifo=fifo)
        for point in points
        for fault in point.faults
        if fault in faults
        for flush in ((False, True) if STORIES[point.story].role == "worker" else (False,))
        for fifo in (False, True)
    ]


def in_order(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """All cells, in an order that the seed decides: first one for each point, so that any beginning is a fair sample.

    The first of the points' cells take the faults in turn, so that all kinds occur among them.
    """
    rng = random.Random(seed)
    by_point: dict[Point, list[Cell]] = {}
    for cell in cells:
        by_point.setdefault(cell.point, []).append(cell)
    points = list(by_point)
    rng.shuffle(points)
    first: list[Cell] = []
    for place, point in enumerate(points):
        of_point = by_point[point]
        rng.shuffle(of_point)
        wanted = FAULTS[place % len(FAULTS)]
        first.append(next((cell for cell in of_point if cell.fault is wanted), of_point[0]))
    taken = set(first)
    rest = [cell for cell in cells if cell not in taken]
    rng.shuffle(rest)
    return first + rest


def select_cells(cells: Iterable[Cell], pattern: str) -> list[Cell]:
    """The cells whose name contains the pattern, or matches it where it has wildcards."""
    wild = pattern if any(sign in pattern for sign in "*?") else f"*{pattern.replace('[', '[[]')}*"
    return [cell for cell in cells if fnmatch.fnmatchcase(cell.name, wild)]


@dataclass(slots=True)
class _Running:
    process: BaseProcess
    report: Connection
    folder: Path
    name: str
    fault: str
    until: float
    make: Callable[[Path], Director]
    tries: int


class Matrix:
    """Plays cells, several at a time, each in a process forked from this one. Keep this one free of threads."""

    def __init__(self, stack: LocalStack, home: Path, *, jobs: int, seed: int, keep: bool = False) -> None:
        self._stack, self._home, self._jobs, self._seed, self._keep = stack, home, jobs, seed, keep
        self._running: list[_Running] = []
        self._count = 0
        self.replayed = 0
        """Cells that were played once more, because their fault had not struck."""

    def play(self, directors: Iterator[Callable[[Path], Director]]) -> Iterator[Result]:
        """The results, as they come. A folder of evidence stays only where there is something wrong."""
        more = True
        while more or self._running:
            while more and len(self._running) < self._jobs:
                make = next(directors, None)
                if make is None:
                    more = False
                    break
                self._start(make)
            yield from self._gather(0.2)

    def cell(self, cell: Cell) -> Callable[[Path], Director]:
        return lambda folder: Director(self._stack, folder, cell, self._seed)

    def stop(self) -> None:
        for running in self._running:
            self._kill(running)
        self._running.clear()

    def _start(self, make: Callable[[Path], Director], tries: int = 1) -> None:
        self._count += 1
        folder = self._home / f"cell-{self._count:05}"
        folder.mkdir(parents=True)
        director = make(folder)
        report, sender = multiprocessing.Pipe(duplex=False)
        process = FORK.Process(target=play_in_child, args=(director, sender))
        process.start()
        sender.close()
        name, fault = director.result.name, director.result.fault
        until = time.monotonic() + CELL_SECONDS
        self._running.append(_Running(process, report, folder, name, fault, until, make, tries))

    def _gather(self, seconds: float) -> Iterator[Result]:
        ready = wait([running.report for running in self._running], seconds)
        for running in [one for one in self._running if one.report in ready or time.monotonic() > one.until]:
            self._running.remove(running)
            result = self._end(running)
            if result.not_struck and running.tries < MOST_TRIES:
                self.replayed += 1
                self._start(running.make, running.tries + 1)
            else:
                yield result

    def _end(self, running: _Running) -> Result:
        problem = f"no answer within {CELL_SECONDS:g} s, or the director died"
        result = Result(name=running.name, fault=running.fault, problems=[problem])
        with suppress(EOFError):
            if running.report.poll():
                result = running.report.recv()
        self._kill(running)
        if result.problems:
            result.problems.append(f"evidence: {running.folder}")
        elif not self._keep:
            shutil.rmtree(running.folder)
        return result

    def _kill(self, running: _Running) -> None:
        """Its director, and whatever that left behind: each cell has a process group of its own."""
        running.report.close()
        assert running.process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.join()
