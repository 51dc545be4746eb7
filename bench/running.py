"""A contender at work: started, looked at from outside, ended."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.accounting import machine_busy_seconds, own_cpu_seconds
from bench.contenders import Contender
from bench.experiment import Sample, percentile
from bench.launch import Launched, NotMeasuredError, launch
from bench.programs.terms import START
from bench.stage import Room, Stage

OF_A_RECEIVER = ("ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "SendMessage", "SendMessageBatch")

TOLD_CHARACTERS = 200


def attempt(contender: Contender, measure: Callable[[], dict[str, float]], case: str = "") -> Sample:
    """A sample of what `measure` gives, or of why it gives nothing: one that can't run must not stop the others."""
    if missing := contender.missing():
        return Sample(contender=contender.name, case=case, note=f"not run: {missing}")
    try:
        return Sample(contender=contender.name, case=case, figures=measure())
    except NotMeasuredError as error:
        return Sample(contender=contender.name, case=case, note=str(error)[:TOLD_CHARACTERS])


def attempt_times(contender: Contender, measure: Callable[[], list[float]], case: str) -> Sample:
    """The same of milliseconds, whose distribution matters."""

    def figures() -> dict[str, float]:
        found = measure()
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
        return {name: percentile(found, share) for name, share in shares.items()} | {"turns": float(len(found))}

    return attempt(contender, figures, case)


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


@dataclass(slots=True)
class Running(Launched):
    stage: Stage
    room: Room
    contender: Contender
    started_at: float
    """Wall clock, just before its process was made."""

    def handled(self) -> int:
        return self.room.record.stat().st_size // START.size

    def starts(self) -> list[Start]:
        # A record that is just being written is not whole yet.
        data = self.room.record.read_bytes()
        found = START.iter_unpack(data[: len(data) // START.size * START.size])
        return sorted((Start(number, nanoseconds / 1e9) for number, nanoseconds in found), key=lambda start: start.at)

    def look(self) -> Look:
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
        )

    def require_polling(self, seconds: float) -> None:
        self.require("polling", lambda: self.stage.sqs.counts(self.room.queue).first_receive_at is not None, seconds)

    def require_handled(self, count: int, seconds: float) -> None:
        self.require("through", lambda: self.handled() >= count, seconds)

    def require_empty(self, seconds: float) -> None:
        """Waits until the last ones, which have begun, are settled and deleted, too."""
        self.require("at the end", lambda: self.stage.sqs.counts(self.room.queue).left == 0, seconds)


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
    """Starts the contender for as long as the block; `wrapped`, a command that shall run it (valgrind)."""
    command = [*wrapped, *contender.command(slots, sleep_seconds)]
    environment = contender.environment(room, slots, sleep_seconds)
    started_at = time.time()
    with launch(contender.name, command, room.log, room.folder, environment) as it:
        yield Running(it.name, it.process, it.tree, it.log, stage, room, contender, started_at)
