"""What is measured: how each contender is started, and what it is given."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.peers import NODE_FOLDER, PEERS_BIN
from bench.stage import Room
from bench.workloads import Filling, fill_celery, fill_jobs, fill_plain, fill_taskiq, fill_turns

PROGRAMS = Path(__file__).parent / "programs"
CELERY_PROCESSES = 16
"""For work that takes no time: 64 processes on two cores would measure the kernel's scheduler."""

Command = Callable[[int, float], list[str]]
"""From slots and the handler's seconds to a command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One of them. `share`: how many jobs it gets for a hundred of ours, so that none takes all the time."""

    name: str
    command: Command
    fill: Filling
    share: int
    missing: Callable[[], str | None] = lambda: None
    """Why it can't run here, if it can't."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables that differ from production's defaults."""

    def environment(self, room: Room, slots: int, sleep_seconds: float) -> dict[str, str]:
        return room.environment(slots, sleep_seconds) | {
            "BENCH_NODE_FOLDER": str(NODE_FOLDER),
            # For the product and the floor; the others do not read them. Any other setting is as in production.
            "TURNSTILE_QUEUES": json.dumps([{"name": room.queue, "dlq": f"{room.queue}-dlq"}]),
            "TURNSTILE_QUEUE": room.queue,
            "TURNSTILE_HANDLER": "bench.programs.answer:respond",
            "TURNSTILE_CONCURRENCY": str(slots),
            # As the setting's own text advises.
            "TURNSTILE_POLLERS": "1" if slots < 200 else "4",
            **self.settings,
        }


def _celery(slots: int, sleep_seconds: float) -> list[str]:
    processes = slots if sleep_seconds else min(slots, CELERY_PROCESSES)
    return [
        *(
            str(PEERS_BIN / "celery"),
            "-A",
            "bench.programs.celery_app",
            "worker",
            "-P",
            "prefork",
            "-c",
            str(processes),
        ),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"),
    ]


def _taskiq(slots: int, sleep_seconds: float) -> list[str]:
    return [
        *(str(PEERS_BIN / "taskiq"), "worker", "bench.programs.taskiq_app:broker", "--workers", "1"),
        *("--max-async-tasks", str(slots), "--log-level", "WARNING"),
    ]


def _without_peers() -> str | None:
    return None if (PEERS_BIN / "celery").exists() else "its packages are not installed"


def _without_node() -> str | None:
    if shutil.which("node") is None:
        return "there is no node here"
    return None if (NODE_FOLDER / "node_modules").is_dir() else "its packages are not installed"


OURS = Contender(
    name="ours",
    command=lambda slots, sleep_seconds: [sys.executable, "-m", "turnstile.ops.main", "worker"],
    fill=fill_turns,
    share=100,
)
HANDMADE = Contender(
    name="handmade",
    command=lambda slots, sleep_seconds: [str(PEERS_BIN / "python"), "-m", "bench.programs.handmade"],
    fill=fill_jobs,
    share=25,
    missing=_without_peers,
)
CELERY = Contender(
    name="celery",
    command=_celery,
    fill=fill_celery,
    share=25,
    missing=_without_peers,
)
TASKIQ = Contender(
    name="taskiq",
    command=_taskiq,
    fill=fill_taskiq,
    share=60,
    missing=_without_peers,
)
BBC = Contender(
    name="bbc",
    command=lambda slots, sleep_seconds: ["node", str(PROGRAMS / "bbc.mjs")],
    fill=fill_plain,
    share=100,
    missing=_without_node,
)
FLOOR = Contender(
    name="floor",
    command=lambda slots, sleep_seconds: [sys.executable, "-m", "bench.programs.floor"],
    fill=fill_plain,
    share=200,
)
FLOOR_OWN = replace(
    FLOOR,
    name="floor-own",
    command=lambda slots, sleep_seconds: [sys.executable, "-m", "bench.programs.floor_own"],
)

CONTENDERS = {one.name: one for one in (OURS, HANDMADE, CELERY, TASKIQ, BBC, FLOOR, FLOOR_OWN)}
