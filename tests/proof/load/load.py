"""One load: what the processes can do is measured first; then a share of that is asked of it for a while, with bursts.

The load is open: a turn is due when its moment has come, however the system fares, and its times count from then on. What
waits because everything is full waits in the figures too.
"""

import asyncio
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, LiteralString

import psycopg

from bench.stage import Room, Stage
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.quiescence import gather, wait_for_rest
from tests.proof.chaos.rig import start_processes
from tests.proof.chaos.supervisor import Supervisor, pause
from tests.proof.chaos.target_tracking import Policy, Tracking, track
from tests.proof.load.abuse import FOLLOWED, QUIET, followed, tenants_of
from tests.proof.load.arrivals import Pace, Talk, arrivals
from tests.proof.load.crowd import POLLERS, READERS, SLOW
from tests.proof.load.plan import ALONE, PACED, Outcome, Plan
from tests.proof.load.sampling import Sampler
from tests.proof.load.stage import install_audit, remains_of, terms_of, variables_of
from tests.proof.load.ways import Submit, open_direct, open_over_http
from tests.proof.terms import write_terms
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.queries.backlog import read_backlog

LOOK_AHEAD_SECONDS = 0.1
AHEAD = 4
"""While capacity is measured, so many turns wait or run for each slot: no worker is ever idle, and none waits for long."""

STOP_SECONDS = 40.0
"""Twice a long poll as in production."""

LEAST_ENDED = 20
"""A rate of fewer says nothing."""

OPEN = "SELECT count(*) FROM turns WHERE status IN ('PENDING', 'RUNNING')"
ENDED = "SELECT count(*) FROM turns WHERE finished_at IS NOT NULL"

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Load:
    plan: Plan
    way: Submit
    database: "psycopg.AsyncConnection[Any]"
    asked: IO[str]
    _under_way: int = 0

    async def saturate(self, name: str, seconds: float) -> float:
        """Lets there be more to do than can be done, for so long; the turns that ended a second. `name` is of this once."""
        talk = self._talk(name)
        most = AHEAD * self.plan.slots * self.plan.workers
        begun, before = time.monotonic(), await self._count(ENDED)
        took, ended = 0.0, 0
        async with asyncio.TaskGroup() as submits:
            # On a machine that is busy with other things the first end may take longer.
            while took < seconds or (ended < LEAST_ENDED and took < self.plan.bound_seconds):
                for _ in range(most - await self._count(OPEN) - self._under_way):
                    submits.create_task(self._submit(talk, name, now(), burst=False))
                await pause(LOOK_AHEAD_SECONDS)
                took, ended = time.monotonic() - begun, await self._count(ENDED) - before
        async with asyncio.timeout(self.plan.bound_seconds):
            while await self._count(OPEN):
                await pause(LOOK_AHEAD_SECONDS)
        return ended / took

    async def ask(
        self, pace: Pace, seconds: float, phase: str = PACED, tenants: Mapping[str, float] | None = None
    ) -> tuple[float, float]:
        """Asks for turns at that pace for so long; when it began and when the last was due."""
        rng = random.Random(f"{self.plan.seed}/{self.plan.name}/arrivals")
        talk = self._talk(phase, tenants)
        begun = now()
        async with asyncio.TaskGroup() as submits:
            for second in arrivals(pace, seconds, rng):
                if (wait := begun + second - now()) > 0:
                    await pause(wait)
                submits.create_task(self._submit(talk, phase, begun + second, burst=pace.is_burst(second)))
            await pause(max(0.0, begun + seconds - now()))
            ended = now()
        return begun, ended

    def _talk(self, name: str, tenants: Mapping[str, float] | None = None) -> Talk:
        rng = random.Random(f"{self.plan.seed}/{self.plan.name}/{name}")
        chosen: dict[str, Any] = {} if tenants is None else {"tenants": tenants}
        return Talk(name, rng, self.plan.sessions, self.plan.handler_seconds, **chosen)

    async def _submit(self, talk: Talk, phase: str, due: float, *, burst: bool) -> None:
        begun = now()
        self._under_way += 1
        try:
            turn_id = await self.way(ask := talk.next())
        finally:
            self._under_way -= 1
        line = {
            "phase": phase,
            "tenant": ask.tenant,
            "burst": burst,
            "due": due,
            "at": begun,
            "until": now(),
            "turn_id": turn_id,
        }
        self.asked.write(json.dumps(line) + "\n")

    async def _count(self, statement: LiteralString) -> int:
        row = await (await self.database.execute(statement)).fetchone()
        return int(row[0]) if row else 0


async def run(plan: Plan, stage: Stage, forks: ForkServer, folder: Path, say: Say) -> Outcome:
    """Makes a load; its evidence is in `folder` afterwards."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    async with AsyncExitStack() as exits:
        exits.callback(journal.close)
        room = exits.enter_context(stage.room(f"load-{plan.name}"))
        await asyncio.to_thread(install_audit, room)
        environment, apis = variables_of(plan, room, folder), plan.apis if plan.over_http else 0

        async def variables(_: str) -> dict[str, str]:
            return environment

        processes = await exits.enter_async_context(Supervisor(journal, forks))
        urls = await start_processes(processes, {"api": apis, "worker": plan.workers, "relay": 1}, variables)
        opening = open_over_http(urls, journal) if plan.over_http else open_direct(environment, room.queue, journal)
        way = await exits.enter_async_context(opening)
        database = await psycopg.AsyncConnection.connect(room.database_url, autocommit=True)
        exits.push_async_callback(database.close)
        asked = exits.enter_context((folder / "arrivals.jsonl").open("a"))
        load = Load(plan=plan, way=way, database=database, asked=asked)
        await load.saturate("warm", plan.warm_up_seconds)
        capacity = await load.saturate("full", plan.measure_seconds)
        if not capacity:
            raise RuntimeError(f"not one turn ended within {plan.bound_seconds:g} s; see {folder / 'logs'}")
        pace = plan.pace(capacity)
        asked_for = f"{pace.per_second:.0f} are asked for, and {pace.burst_factor:g} times that in bursts"
        say(f"{plan.name}: {capacity:.0f} turns/s can be done here; {asked_for}")
        stopping = asyncio.Event()
        sampler = Sampler(
            stage=stage,
            room=room,
            processes=processes,
            file=folder / "samples.jsonl",
            every_seconds=plan.sample_seconds,
        )
        sampling = asyncio.create_task(sampler.run(stopping))
        scaling = asyncio.create_task(_scale(plan, room, processes, environment, stopping, say))
        if plan.flooding:
            alone = replace(pace, per_second=pace.per_second * (1 - plan.flooding))
            await load.ask(alone, plan.seconds / 3, ALONE, {QUIET: 1.0})
        crowding = asyncio.create_task(_crowd(load, urls[0], folder, say)) if plan.crowd_seconds else None
        begun_at, ended_at = await load.ask(pace, plan.seconds, tenants=tenants_of(plan))
        if crowding is not None:
            await crowding
        remains = remains_of(room, environment)
        rested_at = await wait_for_rest(remains, plan.bound_seconds)
        stopping.set()
        await asyncio.gather(sampling, scaling)
        for late in await processes.stop_all(within_seconds=STOP_SECONDS):
            say(f"{plan.name}: {late} did not end by SIGTERM")
        await asyncio.to_thread(gather, remains, journal)
        outcome = Outcome(plan=plan, capacity=capacity, begun_at=begun_at, ended_at=ended_at, rested_at=rested_at)
        write_terms(terms_of(outcome, environment), folder)
        (folder / "outcome.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    return outcome


async def _crowd(load: Load, url: str, folder: Path, say: Say) -> None:
    """A crowd calls from the end of the first third on, in a process of its own; `crowd.json` has what it met."""
    plan = load.plan
    await pause(plan.seconds / 3)
    turns = await asyncio.gather(*(load.way(followed(number, plan.crowd_seconds)) for number in range(FOLLOWED)))
    many = {"pollers": POLLERS, "readers": READERS, "slow": SLOW}
    options = [f"--{name}={max(1, round(plan.crowd_scale * count))}" for name, count in many.items()]
    about = (url, str(plan.crowd_seconds), str(folder / "crowd.json"), *filter(None, turns))
    calling = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.proof.load.crowd", *options, *about)
    if await calling.wait():
        raise RuntimeError("the crowd has failed: see above")
    say(f"{plan.name}: the crowd has left")


async def _scale(
    plan: Plan, room: Room, processes: Supervisor, environment: dict[str, str], stopping: asyncio.Event, say: Say
) -> None:
    """Adds workers and takes them away, as target tracking would; a minute of it is `point_seconds` here."""
    policy = Policy(per_task=plan.slots / 2, minimum=plan.workers, maximum=plan.most_workers)
    standing = Tracking(desired=plan.workers)
    numbers = itertools.count(plan.workers + 1)
    workers = processes.of("worker")
    most = len(workers)
    async with Database(DatabasePlace(room.database_url), "load", size=1) as database:
        while not await pause(plan.point_seconds, stopping):
            [backlog] = await read_backlog(database, [room.queue])
            standing = track(policy, standing, backlog.ready + backlog.running, len(workers))
            for _ in range(standing.desired - len(workers)):
                workers.append(await processes.add(f"worker-{next(numbers)}", "worker", environment))
            most = max(most, len(workers))
            for part in workers[standing.desired :]:
                part.wanted = False
                processes.send(part.name, signal.SIGTERM)
                await part.ended.wait()
            del workers[standing.desired :]
    say(f"{plan.name}: {most} workers at most, {len(processes.of('worker'))} in all")
