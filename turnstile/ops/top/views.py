"""The tables of the screen: what each shows of a snapshot, and where Enter on a row leads. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turnstile.ops.doctor.report import summary
from turnstile.ops.doctor.run_checks import Findings
from turnstile.ops.queues import queue_overview
from turnstile.ops.terminal.output import Columns, describe_counts, short_duration, shortened
from turnstile.ops.top.snapshot import Snapshot
from turnstile.ops.workers import worker_overview


@dataclass(frozen=True, slots=True)
class ExplainTurn:
    """Enter shows what the turn waits for."""

    turn_id: UUID


@dataclass(frozen=True, slots=True)
class ShowTurns:
    """Enter shows the running turns of a queue or of a worker."""

    queue: str | None = None
    worker_id: str | None = None

    def matches(self, turn: Any) -> bool:
        return self.queue in {None, turn.queue} and self.worker_id in {None, turn.worker_id}


Way = ExplainTurn | ShowTurns
EVERYTHING = ShowTurns()


@dataclass(frozen=True, slots=True)
class View:
    name: str
    columns: Columns
    rows: Callable[[Snapshot, ShowTurns], Sequence[Any]]
    way: Callable[[Any], Way]


QUEUES = View(
    "queues",
    queue_overview.QUEUES,
    lambda snapshot, _: snapshot.queues,
    lambda one: ShowTurns(queue=one.queue),
)
WORKERS = View(
    "workers",
    worker_overview.WORKERS,
    lambda snapshot, _: snapshot.workers,
    lambda one: ShowTurns(worker_id=one.worker_id),
)
TURNS = View(
    "turns",
    worker_overview.RUNNING,
    lambda snapshot, shown: [turn for turn in snapshot.running if shown.matches(turn)],
    lambda turn: ExplainTurn(turn.turn_id),
)
FAILURES = View(
    "failures",
    {
        # The error first: a narrow terminal cuts off the right.
        "error": "error_class",
        "turns": "turns",
        "last": "last_failed_at",
        "queue": "queue",
        "releases": lambda group: describe_counts(group.releases),
        "the last turn": "sample_turn_id",
        "its message": lambda group: shortened(group.sample_error),
    },
    lambda snapshot, _: snapshot.failed,
    lambda group: ExplainTurn(group.sample_turn_id),
)
VIEWS = (QUEUES, WORKERS, TURNS, FAILURES)


def headline(snapshot: Snapshot) -> str:
    """Throughput, ends and latencies of the last time, and the backlog of all queues."""
    stats = snapshot.stats
    ends = ", ".join(f"{name} {many}" for name, many in stats.by_status.items()) or "none"
    due, ready, running = (
        sum(getattr(one.backlog, name) for one in snapshot.queues) for name in ("due", "ready", "running")
    )
    more = "+" if any(one.backlog.truncated for one in snapshot.queues) else ""
    oldest = max((one.backlog.oldest_seconds for one in snapshot.queues), default=0.0)
    waits = (
        f"{ready}{more} could begin, the oldest has been due for {short_duration(oldest)}"
        if ready
        else "none could begin"
    )
    times = [
        f"{name} p50 {short_duration(found.p50)}, p95 {short_duration(found.p95)}, p99 {short_duration(found.p99)}"
        for name, found in (("waiting", stats.waiting_seconds), ("running", stats.running_seconds))
        if found is not None
    ]
    return "\n".join(
        [
            f"ended in {short_duration(stats.since_seconds)}: {stats.ended} ({stats.ended_per_second:.3g} a second); {ends}",
            "; ".join(times) or "no turn has been started and ended",
            f"backlog: {due}{more} due, {running} running; {waits}",
        ]
    )


def name_findings(findings: Findings) -> str:
    """What the doctor finds, in one line: the counts, and each finding with its subject."""
    named = dict.fromkeys(f"{one.code} {one.subject}" for one in findings)
    return ": ".join(filter(None, [f"doctor: {summary(findings)}", ", ".join(named)]))
