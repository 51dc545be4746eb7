"""What a process uses: descriptors, threads, asyncio tasks, memory; and the servers' connections."""

import asyncio
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests.proof.chaos.environment import ROLE, Environment
from tests.proof.chaos.journal import now
from tests.proof.chaos.supervisor import Part, pause

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one process holds at one moment."""

    at: float
    name: str
    pid: int
    descriptors: int
    threads: int
    tasks: int
    rss_kb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What the product's processes hold of the servers together."""

    at: float
    postgres: int
    redis: int


async def look_at(parts: Iterable[Part], tasks_file: Path) -> list[Holding]:
    """All living parts. The tasks are counted by each process itself, when it is sent SIGUSR2."""
    living = [(part.name, part.pid) for part in parts if part.pid is not None]
    await asyncio.to_thread(tasks_file.write_text, "")
    for _, pid in living:
        os.kill(pid, signal.SIGUSR2)
    tasks = await _read_tasks(tasks_file, len(living))
    return [_holding(name, pid, tasks.get(pid, 0)) for name, pid in living]


async def _read_tasks(file: Path, wanted: int) -> dict[int, int]:
    deadline = now() + ANSWER_SECONDS
    while True:
        lines = [line.split() for line in (await asyncio.to_thread(file.read_text)).splitlines()]
        counted = {int(pid): int(tasks) for pid, tasks in lines}
        if len(counted) >= wanted or now() > deadline:
            return counted
        await pause(0.05)


def _holding(name: str, pid: int, tasks: int) -> Holding:
    process = Path(f"/proc/{pid}")
    return Holding(
        at=now(),
        name=name,
        pid=pid,
        descriptors=len(list((process / "fd").iterdir())),
        threads=len(list((process / "task").iterdir())),
        tasks=tasks,
        rss_kb=int((process / "statm").read_text().split()[1]) * PAGE_KB,
    )


async def count_connections(stage: Environment) -> Connections:
    return await asyncio.to_thread(_count_connections, stage)


def _count_connections(stage: Environment) -> Connections:
    with psycopg.connect(stage.admin_url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [ROLE]).fetchone()
    with redis.Redis.from_url(stage.stack.redis.url) as client:
        clients = int(client.info("clients")["connected_clients"])
    return Connections(at=now(), postgres=int(row[0]) if row else 0, redis=clients)
