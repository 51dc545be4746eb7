"""Relay: many turns are scheduled for one instant, and one worker with its relay begins with them all.

Another queue's few turns fall due in the midst of it: they wait for a round, not for the others' backlog.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg

from bench.contenders import OURS
from bench.drains import figures
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most, percentile
from bench.running import Running, attempt
from bench.running import run as start
from bench.stage import VISIBILITY_SECONDS, Room, Stage
from bench.workloads import schedule_turns

TURNS = 10_000
OTHERS = 10
AHEAD_SECONDS = 3.0
"""From the start of the worker's first poll to the instant."""
MIDST_SECONDS = 1.0
WAIT_SECONDS = 300.0
LATE_SECONDS = 6.0
OTHERS_LATE_SECONDS = 2.0
"""A tick of the relay, and a round that was under way."""


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    yield attempt(OURS, partial(_measure, stage, scale.turns(TURNS)), f"{scale.turns(TURNS):,} at one instant")


def _measure(stage: Stage, count: int) -> dict[str, float]:
    with stage.room("relay") as room:
        other = f"{room.queue}-other"
        stage.sqs.create_queue(other, VISIBILITY_SECONDS)
        stage.sqs.create_queue(f"{other}-dlq", VISIBILITY_SECONDS)
        later = datetime.now(UTC) + timedelta(hours=1)
        schedule_turns(room, room.queue, count, later)
        schedule_turns(room, other, OTHERS, later)
        queues = [{"name": name, "dlq": f"{name}-dlq"} for name in (room.queue, other)]
        with start(stage, room, OURS, slots=64, wrapped=("env", f"TURNSTILE_QUEUES={json.dumps(queues)}")) as running:
            running.require_polling(WAIT_SECONDS)
            instant = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)
            _fall_due(room, room.queue, instant)
            _fall_due(room, other, instant + timedelta(seconds=MIDST_SECONDS))
            before = running.look()
            others_sent_at = _wait_for_both(running, other, count)
            spent = figures(before, running.look())
            late = [one.at - instant.timestamp() for one in running.starts()]
        return {
            "last": max(late),
            "p50": percentile(late, 0.5),
            "turns_per_second": count / max(late),
            "worker_cpu_ms": spent["worker_cpu_ms"],
            "postgres_cpu_ms": spent["postgres_cpu_ms"],
            "others": others_sent_at - instant.timestamp() - MIDST_SECONDS,
        }


def _wait_for_both(running: Running, other: str, count: int) -> float:
    """Until all have begun, and the other queue's are sent; when these were."""
    sent_at: list[float] = []

    def through() -> bool:
        if not sent_at and running.stage.sqs.counts(other).messages.get("sent", 0) >= OTHERS:
            sent_at.append(time.time())
        return bool(sent_at) and running.handled() >= count

    running.require("through", through, WAIT_SECONDS)
    return sent_at[0]


def _fall_due(room: Room, queue: str, instant: datetime) -> None:
    # Only now is it known when the worker is there.
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE turns SET execute_at = %(at)s, send_at = %(at)s WHERE queue = %(q)s",
            {"at": instant, "q": queue},
        )
        connection.execute("VACUUM ANALYZE turns")


def judge(samples: Samples) -> list[TargetResult]:
    findings = []
    for case, contender in samples.rows():
        last, others = samples.median("last", contender, case), samples.median("others", contender, case)
        findings += [
            at_most(f"{case}, to the start of the last", last, LATE_SECONDS, "s"),
            at_most(f"{OTHERS} of another queue meanwhile, to their sends", others, OTHERS_LATE_SECONDS, "s"),
        ]
    return findings


EXPERIMENT = Experiment(
    name="relay",
    measures="seconds from the instant for which many turns are scheduled to the start of the last, with one worker",
    columns=(
        Column("p50", "p50 s", 2),
        Column("last", "last s", 2),
        Column("turns_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("postgres_cpu_ms", "Postgres ms/turn", 3),
        Column("others", "other queue's s", 2),
    ),
    run=run,
    judge=judge,
)
