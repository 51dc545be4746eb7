"""A contender at work: started, looked at from outside, ended."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from bench.accounting import Tree, machine_busy_seconds, own_cpu_seconds
from bench.contenders import Contender
from bench.experiment import Sample
from bench.programs.terms import START
from bench.stage import Room, Stage

LOOK_SECONDS = 0.01
TERM_SECONDS = 2.0

OF_A_RECEIVER = ("ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "SendMessage", "SendMessageBatch")
PROLONGING = ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")


TOLD_CHARACTERS = 200


class NotMeasuredError(Exception):
    """The contender did not do what was to be measured; the message says what it did instead."""


def attempt(contender: Contender, measure: Callable[[], dict[str, float]], case: str = "") -> Sample:
    """A sample of what `measure` gives, or of why it gives nothing: one that can't run must not stop the others."""
    if missing := contender.missing():
        return Sample(contender=contender.name, case=case, note=f"not run: {missing}")
    try:
        return Sample(contender=contender.name, case=case, figures=measure())
    except NotMeasuredError as error:
        return Sample(contender=contender.name, case=case, note=str(error)[:TOLD_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Start:
    """A handler began: with which job, and when (wall clock, seconds)."""

    number: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All counters at one moment. CPU in seconds since the process began."""

    at: float
    handled: int
    worker: float
    emulator: float
    postgres: float
    redis: float
    machine: float
    harness: float
    calls: int
    prolongings: int


@dataclass(slots=True)
class Running:
    """One contender in its room."""

    stage: Stage
    room: Room
    contender: Contender
    process: "subprocess.Popen[bytes]"
    tree: Tree
    started_at: float
    """Wall clock, just before its process was made."""

    def handled(self) -> int:
        """How many handlers have begun."""
        return self.room.record.stat().st_size // START.size

    def starts(self) -> list[Start]:
        """All of them, in the order they began."""
        # A record that is just being written is not whole yet.
        data = self.room.record.read_bytes()
        found = START.iter_unpack(data[: len(data) // START.size * START.size])
        return sorted((Start(number, nanoseconds / 1e9) for number, nanoseconds in found), key=lambda start: start.at)

    def look(self) -> Look:
        """Reads the counters."""
        counts = self.stage.sqs.counts(self.room.queue)
        return Look(
            at=time.time(),
            handled=self.handled(),
            worker=self.tree.cpu_seconds(),
            emulator=self.stage.sqs.tree.cpu_seconds(),
            postgres=self.stage.postgres.cpu_seconds(),
            redis=self.stage.redis.cpu_seconds(),
            machine=machine_busy_seconds(),
            harness=own_cpu_seconds(),
            calls=sum(counts.calls.get(action, 0) for action in OF_A_RECEIVER),
            prolongings=sum(counts.calls.get(action, 0) for action in PROLONGING),
        )

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came true in that time. Raises NotMeasuredError when the contender has ended instead."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise NotMeasuredError(f"{self.contender.name} ended by itself: {self.log_tail()}")
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def require(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Waits; raises NotMeasuredError if it does not come true."""
        if not self.wait_for(condition, seconds):
            raise NotMeasuredError(f"{self.contender.name}: not {what} within {seconds:g} s: {self.log_tail()}")

    def log_tail(self) -> str:
        """The last line that it printed."""
        return self.room.log.read_text(errors="replace").strip().rpartition("\n")[2]


@contextmanager
def run(
    stage: Stage,
    room: Room,
    contender: Contender,
    *,
    slots: int,
    sleep_seconds: float = 0.0,
    wrapped: Sequence[str] = (),
) -> Iterator[Running]:
    """Starts the contender for as long as the block; `wrapped`, a command that shall run it (a profiler)."""
    command = [*wrapped, *contender.command(slots, sleep_seconds)]
    environment = contender.environment(room, slots, sleep_seconds)
    with room.log.open("ab") as log:
        started_at = time.time()
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=room.folder,
            start_new_session=True,
        )
    tree = Tree.of(process.pid)
    try:
        yield Running(stage, room, contender, process, tree, started_at)
    finally:
        _end(process, tree)


def _end(process: "subprocess.Popen[bytes]", tree: Tree) -> None:
    members = tree.members()
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
        for member in members:
            try:
                member.send_signal(number)
            except psutil.Error:
                continue
        # Its own end must be seen by whoever made it, or it stays a zombie.
        process.poll()
        psutil.wait_procs(members, timeout=seconds)
    process.wait()
