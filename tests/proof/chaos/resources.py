"""What processes use: descriptors, threads, asyncio tasks, memory; and the servers' connections."""

import asyncio
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import redis

from tests.proof.chaos.journal import now
from tests.proof.chaos.servers import ROLE, Servers
from tests.proof.chaos.supervisor import Part, pause

ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    pid: int
    descriptors: int
    threads: int
    tasks: int
    rss_kb: int


async def measure(parts: Iterable[Part], tasks_file: Path) -> dict[str, Usage]:
    """All living parts, by name. The tasks are counted by each process itself, when it is sent SIGUSR2."""
    living = {part.name: part.pid for part in parts if part.pid is not None}
    await asyncio.to_thread(tasks_file.write_text, "")
    for pid in living.values():
        os.kill(pid, signal.SIGUSR2)
    tasks = await _read_tasks(tasks_file, len(living))
    return {name: _usage(pid, tasks.get(pid, 0)) for name, pid in living.items()}


async def _read_tasks(file: Path, wanted: int) -> dict[int, int]:
    deadline = now() + ANSWER_SECONDS
    while True:
        lines = [line.split() for line in (await asyncio.to_thread(file.read_text)).splitlines()]
        counted = {int(pid): int(tasks) for pid, tasks in lines}
        if len(counted) >= wanted or now() > deadline:
            return counted
        await pause(0.05)


def _usage(pid: int, tasks: int) -> Usage:
    process = psutil.Process(pid)
    return Usage(
        pid=pid,
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        tasks=tasks,
        rss_kb=process.memory_info().rss // 1024,
    )


def count_connections(servers: Servers) -> dict[str, int]:
    """The product's connections to each server. Those to Redis include the harness's."""
    with psycopg.connect(servers.admin_url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [ROLE]).fetchone()
    with redis.Redis.from_url(servers.stack.redis.url) as client:
        clients = int(client.info("clients")["connected_clients"])
    return {"Postgres": int(row[0]) if row else 0, "Redis": clients}
