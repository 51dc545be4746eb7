"""`python -m bench.capacity`: what a load asks of every part, and which part gives out first. A model, not a measurement.

What a turn costs was measured (docs/performance.md; WAL and rows by `bench/prefill.py:weigh` over 3,000 turns); what a machine
or a service bears is its vendor's word. Everything else is multiplication. It is meant to be wrong by less than a factor of two,
and to say early that something is missing by a factor of ten.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

DAY_SECONDS = 86_400
LONG_POLL_SECONDS = 20.0
HEADROOM = 0.7
"""How far anything is filled: beyond, queues in front of it grow faster than its throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Of one turn with one attempt, one line said on each side; in a session of its own as far as memory goes."""

    worker_cpu_ms: float = 1.7
    submit_postgres_ms: float = 0.31
    work_postgres_ms: float = 0.71
    redis_cpu_ms: float = 0.11
    wal_bytes: float = 3_760.0
    """Without full-page images, which a checkpoint every few minutes adds to: up to twice as much."""
    row_bytes: float = 1_380.0
    """Of turns, messages and attempts, with their indexes, vacuumed."""
    session_row_bytes: float = 190.0
    redis_bytes: float = 5_000.0
    """A session's history and the stream of one turn, until their time is over."""
    sqs_requests: float = 0.33
    """Send, receive and delete in tens, as under load."""
    sqs_requests_singly: float = 3.0
    """The same one by one, as when little is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearing:
    """What the parts bear. Counted in one primary, one Redis, one queue."""

    slots: int = 64
    """Of one worker process, which uses one core."""
    worker_connections: int = 8
    """The pool of 6, the heartbeat's, and one for what is being replaced."""
    postgres_cores: int = 64
    postgres_connections: int = 5_000
    in_flight: int = 120_000
    """Messages of one SQS queue that were received and not deleted."""
    usd_per_million_requests: float = 0.40
    """Of SQS, list price of us-east-1; 0.50 for FIFO."""
    hot_bytes: float = 2e12
    """Of the hot tables: beyond, vacuum and a restore take most of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    turns_per_second: float
    handler_seconds: float = 2.0
    session_turns: float = 10.0
    kept_days: float = 30.0
    """How long ended turns stay in the hot tables."""
    remembered_seconds: float = 3_600.0
    """How long Redis keeps what belongs to a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    workers: int
    """Processes: for their slots or for their CPU, whichever is more."""
    postgres_connections: int
    postgres_cores: float
    wal_mb_per_second: float
    dead_rows_per_second: float
    """For vacuum: a claim and a settle leave one version each."""
    hot_gb: float
    redis_cores: float
    redis_gb: float
    in_flight: float
    sqs_requests_per_second: float


@dataclass(frozen=True, slots=True)
class Limit:
    """The load at which one part is full, and what to do then."""

    what: str
    turns_per_second: float
    then: str


def plan(load: Load, costs: Costs = Costs(), bearing: Bearing = Bearing()) -> Plan:
    rate = load.turns_per_second
    by_slots = rate * load.handler_seconds / bearing.slots
    by_cpu = rate * costs.worker_cpu_ms / 1000
    workers = max(1, math.ceil(max(by_slots, by_cpu) / HEADROOM))
    kept = rate * DAY_SECONDS * load.kept_days
    return Plan(
        workers=workers,
        postgres_connections=workers * bearing.worker_connections,
        postgres_cores=rate * (costs.submit_postgres_ms + costs.work_postgres_ms) / 1000 / HEADROOM,
        wal_mb_per_second=rate * costs.wal_bytes / 1e6,
        dead_rows_per_second=2 * rate,
        hot_gb=kept * (costs.row_bytes + costs.session_row_bytes / load.session_turns) / 1e9,
        redis_cores=rate * costs.redis_cpu_ms / 1000 / HEADROOM,
        redis_gb=rate * load.remembered_seconds * costs.redis_bytes / 1e9,
        in_flight=rate * load.handler_seconds,
        sqs_requests_per_second=rate * costs.sqs_requests,
    )


def limits(load: Load, costs: Costs = Costs(), bearing: Bearing = Bearing()) -> list[Limit]:
    """Where each part gives out as the load of this kind grows; the first to do so first."""
    # All is proportional to the rate, but that processes are counted whole: at a large rate that does not matter.
    one = plan(replace(load, turns_per_second=1.0), costs, bearing)
    many = plan(replace(load, turns_per_second=1e6), costs, bearing)
    found = [
        Limit(
            "the hot tables are too large to vacuum and to restore",
            bearing.hot_bytes / 1e9 / one.hot_gb,
            "keep ended turns for fewer days: `turnstile archive`",
        ),
        Limit(
            "messages in flight of one standard queue",
            HEADROOM * bearing.in_flight / one.in_flight,
            "several queues; or FIFO, where a message is deleted at the claim",
        ),
        Limit(
            "connections of one Postgres",
            HEADROOM * bearing.postgres_connections / (many.postgres_connections / 1e6),
            # No pooler in transaction mode: `turnstile/backends/postgres/database.py:conninfo` sends startup options, which it
            # refuses or drops.
            "more slots a process where handlers wait; else several databases, as for the primary",
        ),
        Limit("one Redis", 1 / one.redis_cores, "a cluster: `redis+cluster://`"),
        Limit(
            "one Postgres primary",
            bearing.postgres_cores / one.postgres_cores,
            "several databases, tenants divided among them: nothing is shared between sessions",
        ),
    ]
    return sorted(found, key=lambda limit: limit.turns_per_second)


def tell(loads: Sequence[Load]) -> str:
    """The tables of docs/scale.md."""
    plans = [plan(load) for load in loads]
    head = ["turns/s", *(f"{load.turns_per_second:,.0f}" for load in loads)]
    rows = [["handler, seconds", *(f"{load.handler_seconds:g}" for load in loads)]]
    rows += [[_TITLES[each.name], *(_figure(getattr(one, each.name)) for one in plans)] for each in fields(Plan)]
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    for seconds in sorted({load.handler_seconds for load in loads}):
        kind = next(load for load in loads if load.handler_seconds == seconds)
        lines += ["", f"Handlers of {seconds:g} s, {kind.kept_days:g} days kept; full at so many turns/s:", ""]
        lines += [_row(["turns/s", "what is full", "then"]), _row(["---"] * 3)]
        lines += [_row([_figure(limit.turns_per_second), limit.what, limit.then]) for limit in limits(kind)]
    lines += ["", *_tell_requests(Costs(), Bearing())]
    return "\n".join(lines) + "\n"


def _tell_requests(costs: Costs, bearing: Bearing) -> list[str]:
    def priced(requests: float) -> str:
        return f"{requests:,.0f} requests of SQS, {requests * bearing.usd_per_million_requests / 1e6:.2f} dollars"

    polls = 30 * DAY_SECONDS / LONG_POLL_SECONDS
    return [
        f"A million turns are {priced(costs.sqs_requests * 1e6)}, in full batches;",
        f"{priced(costs.sqs_requests_singly * 1e6)}, one by one at low load.",
        f"On top, for each worker that waits all month: {priced(polls)}.",
    ]


_TITLES = {
    "workers": "worker processes",
    "postgres_connections": "their connections to Postgres",
    "postgres_cores": "cores of Postgres",
    "wal_mb_per_second": "WAL, MB/s",
    "dead_rows_per_second": "dead rows/s",
    "hot_gb": "hot tables, GB",
    "redis_cores": "cores of Redis",
    "redis_gb": "memory of Redis, GB",
    "in_flight": "messages in flight",
    "sqs_requests_per_second": "SQS requests/s",
}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


USUAL = [
    Load(turns_per_second=rate, handler_seconds=seconds) for seconds in (2.0, 20.0) for rate in (100, 1_000, 10_000)
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--turns-per-second", type=float, nargs="+", help="instead of 100, 1,000 and 10,000")
    parser.add_argument("--handler-seconds", type=float, default=2.0)
    parser.add_argument("--session-turns", type=float, default=10.0)
    parser.add_argument("--kept-days", type=float, default=30.0)
    asked = parser.parse_args()
    loads = [
        Load(
            turns_per_second=rate,
            handler_seconds=asked.handler_seconds,
            session_turns=asked.session_turns,
            kept_days=asked.kept_days,
        )
        for rate in asked.turns_per_second or ()
    ]
    print(tell(loads or USUAL), end="")


if __name__ == "__main__":
    main()
