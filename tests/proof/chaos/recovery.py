"""`python -m tests.proof.chaos.recovery`: a worker is killed, and how soon its turns begin and end again. Default settings.

Each case runs on a stack of its own. Exit code 1: a lost turn began again later than a lease plus five seconds after the kill
although slots were free, they ended later than 1.3 times the ideal, a claim was handed back, a living worker lost one through
a stall of Postgres, or a turn that kills its workers ended another one.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import psycopg
from psycopg.rows import dict_row

from tests.producer.api.network_faults import at_port
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.journal import Journal
from tests.proof.chaos.kinds.postgres import BACKFILL, HANGING, wait_for_standby
from tests.proof.chaos.supervisor import Supervisor
from tests.proof.proxy.control import ProxyControl
from tests.support.probes import until
from tests.support.stacks.stack import as_superuser
from turnstile import Context, Turn, handler
from turnstile.dev.stack.stack import LocalStack, temporary

PROMISED_SECONDS = 5.0
"""In addition to the lease."""
TIMES_THE_IDEAL = 1.3
PATIENCE_SECONDS = 5400.0
"""Turns one crash short of their limit run one at a time in a worker: a dozen of 300 s take a while."""

FIGURES = """
SELECT count(*) FILTER (WHERE crashes > 0) AS lost,
       max(extract(epoch FROM started_at)) FILTER (WHERE crashes > 0) AS begun,
       count(*) FILTER (WHERE status = 'SUCCEEDED') AS ended,
       (SELECT count(*) FROM turn_attempts WHERE outcome = 'released') AS released
  FROM turns WHERE session_id LIKE 'lost-%'
"""


@handler(timeout=900.0)
async def sleep(turn: Turn, _: Context) -> str:
    """The handler: as long as the turn says. A pill kills its worker after a second."""
    if turn.metadata.get("kills"):
        await asyncio.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(float(str(turn.metadata["seconds"])))
    return "slept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one worker has when it is killed, and what is left."""

    name: str
    turns: int
    seconds: float
    survivors: int
    lease_seconds: float = 30.0
    slots: int = 64
    backlog: int = 0
    """Turns of four seconds that wait behind those."""
    stall: "Stall | None" = None
    """Instead of a kill."""
    stall_seconds: float = 0.0
    calm_leases: int = 0
    """Leases before the stall, in which nothing happens."""
    relay_alone: bool = False
    """The relay is a process of its own, and there is no Redis."""
    pills: int = 0
    """Instead of a kill: so many further turns kill their workers, which are started again."""


class Stall(StrEnum):
    """Why living workers can't renew their leases."""

    TABLE = "the table is locked"
    ROWS = "a transaction has updated all rows"
    COMMITS = "every COMMIT hangs"
    AWAY = "Postgres refuses all connections"


CASES = (
    Case(name="64 turns of 30 s, three survivors", turns=64, seconds=30.0, survivors=3),
    Case(name="20 turns of 10 s, one survivor", turns=20, seconds=10.0, survivors=1),
    Case(
        name="8 turns behind a backlog, lease 6 s, one survivor of 8 slots",
        turns=8, seconds=60.0, survivors=1, lease_seconds=6.0, slots=8, backlog=160,
    ),
    Case(
        name="no kill: the table is locked for 70 s",
        turns=40, seconds=100.0, survivors=3, stall=Stall.TABLE, stall_seconds=70.0,
    ),
    Case(
        name="no kill: a backfill of 75 s over all rows",
        turns=40, seconds=100.0, survivors=3, stall=Stall.ROWS, stall_seconds=75.0,
    ),
    Case(
        name="no kill: COMMIT hangs for 45 s",
        turns=40, seconds=100.0, survivors=3, stall=Stall.COMMITS, stall_seconds=45.0,
    ),
    Case(
        name="no kill: Postgres is away for 24 s after five leases, without Redis, with one relay",
        turns=40, seconds=240.0, survivors=3, stall=Stall.AWAY, stall_seconds=24.0, calm_leases=5, relay_alone=True,
    ),
    Case(name="a pill and 63 neighbours of 300 s", turns=63, seconds=300.0, survivors=3, slots=16, pills=1),
    Case(name="two pills and 62 neighbours of 300 s", turns=62, seconds=300.0, survivors=3, slots=16, pills=2),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CaseRun:
    case: Case
    processes: Supervisor
    folder: Path
    environment: dict[str, str]
    database: "psycopg.Connection[dict[str, Any]]"
    proxy: ProxyControl
    stack: LocalStack

    async def play(self) -> tuple[dict[str, Any], bool]:
        """The figures, and whether they are as promised."""
        case = self.case
        if case.pills:
            return await self._poison()
        await self._start(1)
        await self._submit("lost", case.turns, case.seconds)
        await until_late(lambda: self._count("status = 'RUNNING'") == case.turns)
        await self._submit("behind", case.backlog, 4.0)
        await self._start(1 + case.survivors)
        await until_late(lambda: self._count("true", "workers") == 1 + case.survivors)
        if case.relay_alone:
            await self.processes.add("relay", "relay", self.environment)
        return await (self._stall(case.stall) if case.stall else self._kill())

    async def _kill(self) -> tuple[dict[str, Any], bool]:
        case = self.case
        self.processes.parts["worker-1"].wanted = False
        self.processes.send("worker-1", signal.SIGKILL)
        killed_at = time.time()
        await until_late(lambda: self._figures()["lost"] == case.turns)
        if not case.backlog:
            await until_late(lambda: self._figures()["ended"] == case.turns)
        ended = time.time() - killed_at
        found = self._figures()
        begun = float(found["begun"]) - killed_at
        ideal = case.lease_seconds + PROMISED_SECONDS + case.seconds
        figures = {"begun_after": round(begun, 1), "claims_released": found["released"]}
        kept = begun <= case.lease_seconds + PROMISED_SECONDS and not found["released"]
        if not case.backlog:
            figures |= {"ended_after": round(ended, 1), "ideal": ideal}
            kept = kept and ended <= TIMES_THE_IDEAL * ideal
        return figures, kept

    async def _stall(self, stall: Stall) -> tuple[dict[str, Any], bool]:
        marked = 0

        def ended() -> bool:
            nonlocal marked
            marked = max(marked, self._count("status = 'RUNNING' AND send_at IS NOT NULL"))
            return bool(self._figures()["ended"] == self.case.turns)

        await asyncio.sleep(self.case.calm_leases * self.case.lease_seconds)
        async with self._stalled(stall):
            await asyncio.sleep(self.case.stall_seconds)
        await until_late(ended)
        taken = self._figures()["lost"]
        return {"marked_as_lost": marked, "taken_from_the_living": taken}, not marked and not taken

    @asynccontextmanager
    async def _stalled(self, stall: Stall) -> AsyncIterator[None]:
        url = self.stack.postgres.url
        match stall:
            case Stall.TABLE | Stall.ROWS:
                locking = "LOCK TABLE turns IN SHARE MODE" if stall is Stall.TABLE else BACKFILL
                patient = "-c idle_in_transaction_session_timeout=0"
                async with await psycopg.AsyncConnection.connect(url, options=patient) as other:
                    await other.execute(locking)
                    yield
            case Stall.COMMITS:
                wait_for_standby(url, HANGING)
                yield
                wait_for_standby(url, "")
            case Stall.AWAY:
                await self.proxy.set("postgres", "fleet", "cut")
                yield
                await self.proxy.heal("postgres")
            case _:
                assert_never(stall)

    async def _poison(self) -> tuple[dict[str, Any], bool]:
        case = self.case
        # All slots but those of the pills are taken: whichever worker a pill kills, it has neighbours.
        await self._start(1 + case.survivors)
        await self._submit("lost", case.turns, case.seconds)
        await until_late(lambda: self._count("status = 'RUNNING'") == case.turns)
        await self._submit("pill", case.pills, 0.0, kills=True)
        began = time.time()
        await until_late(lambda: self._count("status IN ('SUCCEEDED', 'FAILED')") == case.turns + case.pills)
        pills = self._count("session_id LIKE 'pill-%' AND status = 'FAILED' AND error_class = 'crash_loop'")
        failed = self._count("session_id LIKE 'lost-%' AND status <> 'SUCCEEDED'")
        of_neighbours = "turn_id IN (SELECT id FROM turns WHERE session_id LIKE 'lost-%')"
        figures = {
            "pills_ended": pills,
            "neighbours_failed": failed,
            "neighbours_lost": self._count(f"outcome = 'lost' AND {of_neighbours}", "turn_attempts"),
            "ended_after": round(time.time() - began, 1),
        }
        return figures, pills == case.pills and not failed

    async def _start(self, workers: int) -> None:
        for number in range(len(self.processes.parts) + 1, workers + 1):
            alone = {"TURNSTILE_RELAY": "0"} if self.case.relay_alone else {}
            await self.processes.add(f"worker-{number}", "worker", {**self.environment, **alone})

    async def _submit(self, name: str, turns: int, seconds: float, *, kills: bool = False) -> None:
        metadata = {"seconds": seconds, "kills": kills}
        lines = [{"session_id": f"{name}-{number}", "input": "x", "metadata": metadata} for number in range(turns)]
        if lines:
            file = self.folder / f"{name}.jsonl"
            file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
            await run_command(self.processes, self.environment, "submit", "--direct", "--file", str(file))

    def _figures(self) -> dict[str, Any]:
        found = self.database.execute(FIGURES).fetchone()
        assert found is not None
        return found

    def _count(self, where: str, table: str = "turns") -> int:
        found = self.database.execute(f"SELECT count(*) AS many FROM {table} WHERE {where}").fetchone()
        assert found is not None
        return int(found["many"])


until_late = partial(until, within=PATIENCE_SECONDS, every=0.05)


async def run_command(processes: Supervisor, environment: dict[str, str], *argv: str) -> None:
    command = await processes.run(list(argv), environment)
    assert await command.exited == 0, f"turnstile {' '.join(argv)} failed"


async def play(case: Case) -> tuple[dict[str, Any], bool]:
    """Plays a case on a stack of its own."""
    async with AsyncExitStack() as exits:
        stack = exits.enter_context(temporary(durable=False))
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="turnstile-recovery-")))
        environment = {
            **as_superuser(stack),
            "TURNSTILE_HANDLER": "tests.proof.chaos.recovery:sleep",
            "TURNSTILE_LEASE_SECONDS": str(case.lease_seconds),
            "TURNSTILE_CONCURRENCY": str(case.slots),
            "TURNSTILE_LOG_FORMAT": "json",
            **({"REDIS_URL": "redis://127.0.0.1:1/0"} if case.relay_alone else {}),
        }
        upstream = {"postgres": ("127.0.0.1", stack.postgres.port)}
        proxy = await exits.enter_async_context(ProxyControl.start(upstream, folder))
        environment["DATABASE_URL"] = at_port(environment["DATABASE_URL"], await proxy.open("postgres", "fleet"))
        forks = await exits.enter_async_context(ForkServer.open())
        journal = exits.enter_context(closing(Journal(folder)))
        processes = await exits.enter_async_context(Supervisor(journal, forks))
        await run_command(processes, environment, "migrate")
        await run_command(processes, environment, "queues", "create")
        database = psycopg.connect(stack.postgres.url, autocommit=True, row_factory=dict_row)
        exits.callback(database.close)
        return await CaseRun(
            case=case,
            processes=processes,
            folder=folder,
            environment=environment,
            database=database,
            proxy=proxy,
            stack=stack,
        ).play()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make recovery", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", default="", metavar="WORDS", help="cases whose name contains this")
    asked = parser.parse_args(arguments)
    kept = []
    for case in CASES:
        if asked.only not in case.name:
            continue
        figures, as_promised = asyncio.run(play(case))
        kept.append(as_promised)
        said = ", ".join(f"{name} {value}" for name, value in figures.items())
        print(f"{case.name}: {said}: {'as promised' if as_promised else 'NOT as promised'}", flush=True)
    return 0 if kept and all(kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
