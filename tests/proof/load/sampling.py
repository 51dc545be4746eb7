"""CPU, memory, connections and backlog during a load, sampled: `samples.jsonl`."""

import asyncio
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import redis

from bench.accounting import Tree, machine_busy_seconds, own_cpu_seconds
from bench.stage import Room, Stage
from tests.proof.chaos.journal import now
from tests.proof.chaos.supervisor import Supervisor, pause
from turnstile.queries.backlog import BACKLOG, MOST

TABLES = ("sessions", "turns", "messages", "turn_attempts", "submissions")
"""What a turn leaves behind. The audit's tables are the checker's."""

HARNESS = "harness"
MACHINE = "machine"

LOOK: LiteralString = """
SELECT (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'turnstile-%%') AS connections,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal,
       sum(pg_table_size(name::regclass))::bigint AS tables, sum(pg_indexes_size(name::regclass))::bigint AS indexes,
       sum(pg_stat_get_dead_tuples(name::regclass))::bigint AS dead
  FROM unnest(%(tables)s::text[]) name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at: float
    """Seconds since the epoch, as all evidence."""
    cpu: dict[str, float]
    """CPU seconds so far of each part; `machine` is what all processes used."""
    memory: dict[str, int]
    """Bytes, shared pages divided among those who share them."""
    connections: int
    """The product's connections to Postgres, without the harness's own."""
    redis_connections: int
    redis_bytes: int
    wal: int
    """Bytes written so far."""
    tables: int
    indexes: int
    dead: int
    """Rows of these tables that vacuum has yet to take."""
    due: int
    ready: int
    running: int
    oldest_seconds: float
    """The backlog, as the product reads it."""
    messages: int
    """On the queue, received ones included."""
    workers: int


@dataclass(slots=True, kw_only=True)
class Sampler:
    """Looks every so many seconds, as long as `run` goes on."""

    stage: Stage
    room: Room
    processes: Supervisor
    file: Path
    every_seconds: float
    _parts: dict[int, tuple[str, Tree]] = field(default_factory=dict)

    async def run(self, stopping: asyncio.Event) -> None:
        with (
            psycopg.connect(self.room.database_url, autocommit=True, row_factory=psycopg.rows.dict_row) as database,
            redis.Redis.from_url(self.room.redis_url) as client,
            self.file.open("a") as file,
        ):
            over = False
            while not over:
                over = stopping.is_set()
                # The supervisor belongs to the event loop: the parts are chosen here, and measured in a thread.
                parts = self._living()
                sample = await asyncio.to_thread(self._look, parts, database, client)
                file.write(json.dumps(asdict(sample)) + "\n")
                if not over:
                    await pause(self.every_seconds, stopping)

    def _living(self) -> list[tuple[str, Tree]]:
        found = {}
        for part in self.processes.parts.values():
            if part.pid is not None:
                found[part.pid] = self._parts.get(part.pid) or (part.name, Tree.of(part.pid))
        self._parts = found
        return list(found.values())

    def _look(
        self, parts: list[tuple[str, Tree]], database: "psycopg.Connection[dict[str, Any]]", client: "redis.Redis"
    ) -> Sample:
        trees = [
            *parts,
            ("postgres", self.stage.postgres),
            ("redis", self.stage.redis),
            ("emulator", self.stage.sqs.tree),
        ]
        measured = database.execute(LOOK, {"tables": list(TABLES)}).fetchone()
        waiting = database.execute(BACKLOG, {"queues": [self.room.queue], "limit": MOST}).fetchone()
        assert measured is not None
        assert waiting is not None
        info: Any = client.info()
        return Sample(
            at=now(),
            cpu={
                **{name: tree.cpu_seconds() for name, tree in trees},
                HARNESS: own_cpu_seconds(),
                MACHINE: machine_busy_seconds(),
            },
            memory={name: tree.memory_bytes() for name, tree in trees},
            redis_connections=int(info["connected_clients"]) - 1,
            redis_bytes=int(info["used_memory"]),
            messages=self.stage.sqs.counts(self.room.queue).left,
            workers=sum(name.startswith("worker") for name, _ in parts),
            **measured,
            **{name: waiting[name] for name in ("due", "ready", "running", "oldest_seconds")},
        )
