"""What a contender does with a queue that is full already: how fast, and what each turn costs whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.contenders import Contender
from bench.emulated_sqs import Entry
from bench.running import Look, Running, run
from bench.stage import Room, Stage

START_SECONDS = 60.0
BEGIN_SHARE = 0.05
"""The share of the turns at the start that is not timed: another experiment measures the start of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much of what. What is not done after `most_seconds` is left, and the figures are of what was done."""

    count: int
    slots: int = 64
    sleep_seconds: float = 0.0
    most_seconds: float = 60.0


def drain(
    stage: Stage, contender: Contender, work: Work, fill: Callable[[Room, int], list[Entry]] | None = None
) -> dict[str, float]:
    """The figures of one drain. Raises NotMeasuredError."""
    with stage.room(contender.name) as room:
        stage.sqs.send_all(room.queue_url, (fill or contender.fill)(room, work.count))
        with run(stage, room, contender, slots=work.slots, sleep_seconds=work.sleep_seconds) as running:
            begun = max(1, int(work.count * BEGIN_SHARE))
            running.require("at work", lambda: running.handled() >= begun, START_SECONDS)
            before = running.look()
            whole = running.wait_for(lambda: running.handled() >= work.count, work.most_seconds)
            if whole:
                running.require_empty(START_SECONDS)
            after = running.look()
            return figures(before, after) | {
                "rss_mb": running.tree.rss_bytes() / 1e6,
                "whole": float(whole),
                "duplicates": float(_duplicates(running)),
                "middle_per_second": middle_rate([start.at for start in running.starts()]),
            }


def figures(before: Look, after: Look) -> dict[str, float]:
    """What happened between two looks, per turn and per second."""
    seconds, turns = after.at - before.at, max(1, after.handled - before.handled)
    known = sum(
        getattr(after, name) - getattr(before, name) for name in ("worker", "emulator", "postgres", "redis", "harness")
    )
    milliseconds = {
        f"{name}_cpu_ms": 1000 * (getattr(after, name) - getattr(before, name)) / turns
        for name in ("worker", "postgres", "redis")
    }
    return milliseconds | {
        "turns": float(turns),
        "seconds": seconds,
        "turns_per_second": turns / seconds,
        "worker_cores": (after.worker - before.worker) / seconds,
        "other_cores": (after.machine - before.machine - known) / seconds,
        "calls_per_1000": 1000 * (after.calls - before.calls) / turns,
    }


def middle_rate(times: list[float]) -> float:
    """Starts a second over the middle 80 %, where neither the start nor the last few weigh."""
    low, high = int(len(times) * 0.1), int(len(times) * 0.9)
    return (high - low) / (times[high] - times[low]) if high > low and times[high] > times[low] else 0.0


def _duplicates(running: Running) -> int:
    numbers: list[Any] = [start.number for start in running.starts()]
    # The floor knows no numbers.
    return 0 if running.contender.name.startswith("floor") else len(numbers) - len(set(numbers))
