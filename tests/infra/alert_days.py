"""Days of a deployment as Prometheus scrapes them: the product's own instruments, moved as the product moves them.

A worker that runs a relay and an API are scraped every fifteen seconds of a time of its own. What moves each instrument under the
fault itself is tested where it is counted (tests/telemetry, tests/relay, tests/worker, tests/statements).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from tests.infra.promql import Scrape, Series
from turnstile.queries.workers import WorkerState
from turnstile.telemetry import metrics
from turnstile.telemetry.instruments import Instrument, Process
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

EVERY = 15
BEGINS = 900
"""When the fault of a day begins, in seconds."""
QUEUE = "scraped"

API, WORKER = "turnstile-api", "turnstile-worker"
JOBS = {
    one: {Process.ALL: (API, WORKER), Process.API: (API,)}.get(one.process, (WORKER,))
    for one in vars(metrics).values()
    if isinstance(one, Instrument)
}
"""The jobs that export each metric."""

Happening = Callable[[int], Iterable[str] | None]
"""Called before each scrape with the seconds since the fault began, negative before it. It may name jobs that are down."""


def live(happening: Happening, *, seconds: int = 3600) -> list[Scrape]:
    """The scrapes of a day: calm before the fault, then `seconds` of it."""
    scrapes = []
    with _new_processes():
        _calm()
        for at in range(0, BEGINS + seconds + 1, EVERY):
            down = set(happening(at - BEGINS) or ())
            scrapes.append(Scrape(float(at), {series: value for job, series, value in _samples() if job not in down}))
    return scrapes


@contextmanager
def _new_processes() -> Iterator[None]:
    """Hides the series that earlier tests have left in this process: hundreds of queues, in each of hundreds of scrapes."""
    before = {instrument: instrument._values for instrument in JOBS}
    for instrument in JOBS:
        instrument._values = {} if instrument.labels else {(): instrument._zero()}
    try:
        yield
    finally:
        for instrument, values in before.items():
            instrument._values = values


def _samples() -> Iterable[tuple[str, Series, float]]:
    for instrument, jobs in JOBS.items():
        for family in instrument.collect():
            for sample in family.samples:
                for job in jobs:
                    yield job, _series(sample.name, tuple(sample.labels.items()), job), sample.value


@cache
def _series(name: str, labels: tuple[tuple[str, str], ...], job: str) -> Series:
    return name, frozenset([*labels, ("job", job), ("instance", f"{job}:9464")])


def _calm() -> None:
    for state in ("due", "ready", "running"):
        metrics.BACKLOG.set(0, QUEUE, state)
    for state in WorkerState:
        metrics.WORKERS.set(2 * (state is WorkerState.WELL), QUEUE, state)
    for gauge in (
        metrics.BACKLOG_OLDEST, metrics.QUEUE_PAUSED, metrics.FAILED_TURNS, metrics.SESSIONS_HALTED,
        metrics.SESSIONS_HALTED_SECONDS, metrics.DEAD_LETTERS_EXPECTED, metrics.DLQ_MESSAGES, metrics.DLQ_UNTOUCHED,
        metrics.HEARTBEAT_LATENESS, metrics.STANDSTILL, metrics.LOCK_LONGEST,
    ):  # fmt: skip
        gauge.set(0, QUEUE)
    for backend in ("postgres", "redis_lock", "redis_memory", "sqs"):
        metrics.BACKEND_UP.set(1, backend)
        metrics.BACKEND_FAILURES.add(0, backend)
    metrics.REDIS_MEMORY_RATIO.set(0.1, "memory")
    for counter in (metrics.MESSAGES_MALFORMED, metrics.LEASES_LOST, metrics.EVENT_LOOP_BLOCKED, metrics.WORKERS_LOST):
        counter.add(0, QUEUE)
    metrics.STREAMS_OPEN.set(0)
    traffic(turns=0, received=0, submitted=0, locked=0)


def traffic(
    *,
    turns: int = 6,
    put_off: int = 0,
    received: int = 6,
    submitted: int = 6,
    locked: int = 60,
    busy: int = 0,
    unguarded: int = 0,
    lock_seconds: float = 0.001,
    refused: int = 0,
) -> None:
    """What happens between two scrapes."""
    metrics.TURNS_ENDED.add(turns, QUEUE, TurnStatus.SUCCEEDED, "")
    for outcome, count in ((AttemptOutcome.SUCCEEDED, turns), (AttemptOutcome.SNOOZED, put_off)):
        for _ in range(count):
            metrics.ATTEMPT_RUNNING.observe(0.25, QUEUE, outcome)
    metrics.MESSAGES_RECEIVED.add(received, QUEUE)
    metrics.TURNS_SUBMITTED.add(submitted, QUEUE, "accepted")
    for code, count in (("202", submitted), ("503", refused)):
        metrics.HTTP_REQUESTS.add(count, "/v1/sessions/{session_id}/turns", "POST", code)
    for result, count in (("locked", locked), ("busy", busy), ("unguarded", unguarded)):
        metrics.LOCK_ACQUISITIONS.add(count, QUEUE, result)
    for _ in range(locked):
        metrics.LOCK_WAIT.observe(lock_seconds, QUEUE)


def standstill(now: int, seconds: float) -> None:
    """As a relay measures it once a minute."""
    if now % 60 == 0:
        metrics.STANDSTILL.set(seconds if seconds >= 300 else 0, QUEUE)


def backlog(now: int, *, due: int, ready: int, oldest: float = 0.0) -> None:
    """What a relay reports once a minute."""
    if now % 60 == 0:
        metrics.BACKLOG.set(due, QUEUE, "due")
        metrics.BACKLOG.set(ready, QUEUE, "ready")
        metrics.BACKLOG_OLDEST.set(oldest, QUEUE)


def fails(*backends: str, calls: int = 1) -> None:
    """Calls to these servers fail: the last one did, and so many between two scrapes."""
    for backend in backends:
        metrics.BACKEND_UP.set(0, backend)
        metrics.BACKEND_FAILURES.add(calls, backend)


def responds(*backends: str) -> None:
    for backend in backends:
        metrics.BACKEND_UP.set(1, backend)


# --- days of session locks


def ordinary(now: int) -> None:
    """A calm day."""
    traffic()
    backlog(now, due=4, ready=2, oldest=1.0)


def busy_locks(now: int) -> None:
    """One session's lock is taken, again and again, and nothing waits behind others."""
    traffic(locked=60, busy=6 if now >= 0 else 0)
    backlog(now, due=4, ready=2)


def skipped_locks(now: int) -> None:
    """Redis is away for one lock in sixty."""
    traffic(unguarded=1 if now >= 0 else 0)
    backlog(now, due=4, ready=2)


def holds(seconds: int) -> Happening:
    """One session run after the other holds its lock for so long."""

    def happening(now: int) -> None:
        ordinary(now)
        metrics.LOCK_LONGEST.set(now % seconds if now >= 0 else 1, QUEUE)

    return happening


def one_hold(seconds: float) -> Happening:
    """One lock among many is held for so long."""

    def happening(now: int) -> None:
        ordinary(now)
        metrics.LOCK_LONGEST.set(now if 0 <= now < seconds else 1, QUEUE)

    return happening


def slow_locks(seconds: float, *, lasting: float = math.inf) -> Happening:
    """Redis takes so long to lock a session."""

    def happening(now: int) -> None:
        traffic(lock_seconds=seconds if 0 <= now < lasting else 0.001)
        backlog(now, due=4, ready=2)

    return happening
