"""`make scaling`: load that comes and goes, a fleet that follows its backlog, and whether that costs a turn.

The whole way of production stands, a minute of it in a second: the relay tells the backlog in its log, target tracking makes a
number of tasks of it, tasks are started, and ended by SIGTERM unless they are protected, as the agent beside each was asked.
Exit code 1: the fleet did not grow or did not shrink again, something did not come to rest, or the checker convicted.
"""

import argparse
import asyncio
import itertools
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.proof.chaos import quick_minutes
from tests.proof.chaos.company import Company, open_company
from tests.proof.chaos.journal import now
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import Part, pause
from tests.proof.chaos.target_tracking import Policy, Tracking, track
from tests.proof.checker.__main__ import main as judge
from tests.proof.checker.evidence import Fault
from tests.support.ecs_agent import Agent, ecs_agent
from turnstile.ops.dev.stack.stack import LocalStack

LEASE_SECONDS = 5.0
BACKLOG_SECONDS = 0.2
"""Between two looks at the relay's log."""
SHRINK_SECONDS = 90.0
"""After the last wave the fleet is back at its minimum within so long."""
EBB_TURNS_PER_SECOND = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """How the load comes and goes."""

    flood_turns_per_second: float = 10.0
    flood_seconds: float = 40.0
    ebb_seconds: float = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of the metric, and what was made of it."""

    at: float
    ready: int
    running: int
    tasks: int
    protected: int
    desired: int


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The workers, and how many of them target tracking wants."""

    company: Company
    policy: Policy
    exits: AsyncExitStack
    agents: dict[str, Agent] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    _standing: Tracking = field(init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _read: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._standing = Tracking(desired=self.policy.minimum)

    async def follow(self) -> None:
        """Has as many workers as target tracking wants, until it is cancelled."""
        await self._have(self._standing.desired)
        while True:
            await pause(BACKLOG_SECONDS)
            for ready, running in await asyncio.to_thread(self._told):
                await self._heed(ready, running)

    @property
    def tasks(self) -> list[Part]:
        return [part for part in self.company.cast.of("worker") if part.wanted]

    async def _heed(self, ready: int, running: int) -> None:
        before = self._standing.desired
        self._standing = track(self.policy, self._standing, ready + running, len(self.tasks))
        protected = sum(self._is_protected(part) for part in self.tasks)
        point = Point(
            at=now(),
            ready=ready,
            running=running,
            tasks=len(self.tasks),
            protected=protected,
            desired=self._standing.desired,
        )
        self.points.append(point)
        with (self.company.folder / "scaling.jsonl").open("a") as file:
            file.write(json.dumps(asdict(point)) + "\n")
        if point.desired != before:
            _say(f"{ready} ready, {running} running: {point.tasks} -> {point.desired} workers, {protected} protected")
        await self._have(self._standing.desired)

    async def _have(self, many: int) -> None:
        for _ in range(many - len(self.tasks)):
            await self._start()
        # As ECS does it: protected tasks go on for now, so there may be more tasks than desired.
        spare = [part for part in self.tasks if not self._is_protected(part)]
        for part in spare[: max(len(self.tasks) - many, 0)]:
            self._end(part)

    async def _start(self) -> None:
        name = f"worker-{next(self._numbers)}"
        agent = self.agents[name] = self.exits.enter_context(ecs_agent())
        environment = await self.company.variables(name, ECS_AGENT_URI=agent.uri, TURNSTILE_RELAY="false")
        await self.company.cast.add(name, "worker", environment)

    def _end(self, part: Part) -> None:
        part.wanted = False
        pid = self.company.cast.send(part.name, signal.SIGTERM)
        self.company.journal.write(Fault(at=now(), until=now(), kind="scale-in", target=f"{part.name} {pid}", pid=pid))

    def _is_protected(self, part: Part) -> bool:
        agent = self.agents[part.name]
        expired = time.monotonic() - agent.heard_at > quick_minutes.PROTECTED_SECONDS
        return bool(agent.wishes) and agent.enabled[-1] and not expired

    def _told(self) -> list[tuple[int, int]]:
        """The backlogs that the relay has told since the last look: ready and running."""
        found = []
        for log in (self.company.folder / "logs").glob("relay-*.log"):
            with log.open("rb") as file:
                file.seek(self._read.get(log, 0))
                lines = [line for line in file if line.endswith(b"\n")]
            self._read[log] = self._read.get(log, 0) + sum(map(len, lines))
            for line in lines:
                told = json.loads(line) if line.startswith(b"{") else {}
                if told.get("event") == "queue.backlog":
                    found.append((told["ready"], told["running"]))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to, before the checker has looked at it."""

    accepted: int
    points: Sequence[Point]
    most: int
    """Workers at a time."""
    last: int
    rested: bool


async def scale(
    waves: int, wave: Wave, policy: Policy, options: Options, folder: Path, stack: LocalStack | None = None
) -> Outcome:
    base = {quick_minutes.SWITCH: "yes"}
    async with open_company(options, folder, stack, base=base) as company, AsyncExitStack() as exits:
        await company.start()
        fleet = Fleet(company=company, policy=policy, exits=exits)
        following = asyncio.create_task(fleet.follow())

        async def talk(turns_per_second: float, seconds: float, phase: int) -> None:
            stopping = asyncio.Event()
            pace = replace(options, turns_per_second=turns_per_second)
            talking = [asyncio.create_task(client.run()) for client in company.clients(f"p{phase}c", stopping, pace)]
            ended, _ = await asyncio.wait({following}, timeout=seconds)
            stopping.set()
            await asyncio.gather(*talking)
            for each in ended:
                each.result()

        for number in range(waves):
            await talk(wave.flood_turns_per_second, wave.flood_seconds, 2 * number)
            await talk(EBB_TURNS_PER_SECOND, wave.ebb_seconds, 2 * number + 1)
        healed_at = now()
        rested_at = await company.rest()
        await _until_small(fleet)
        following.cancel()
        last = len(fleet.tasks)
        # Not a calm run for the checker: a worker that is ended while a turn has just begun hands it back, and it runs again.
        await company.end(healed_at=healed_at, rested_at=rested_at, options=replace(options, kinds=("scale-in",)))
    return Outcome(
        accepted=company.tally.accepted,
        points=fleet.points,
        most=max(point.tasks for point in fleet.points),
        last=last,
        rested=rested_at is not None,
    )


async def _until_small(fleet: Fleet) -> None:
    deadline = now() + SHRINK_SECONDS
    while len(fleet.tasks) > fleet.policy.minimum and now() < deadline:
        await pause(BACKLOG_SECONDS)


def usual_options(seed: int) -> Options:
    """Turns that take their time and hardly any CPU: it is their number that matters here."""
    return Options(
        seed=seed,
        kinds=("none",),
        tenant_slots=None,
        clients=16,
        speeches=0.9,
        conversations=0,
        workers=0,
        apis=1,
        relays=1,
        lease_seconds=LEASE_SECONDS,
    )


def _say(text: str) -> None:
    print(f"scaling: {text}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.chaos.scaling", description="A fleet that follows its backlog."
    )
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where the evidence goes")
    asked = parser.parse_args(arguments)
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="scaling-"))
    _say(f"seed {asked.seed}, evidence in {folder}")
    policy = Policy(per_task=8, minimum=1, maximum=6)
    outcome = asyncio.run(scale(asked.waves, Wave(), policy, usual_options(asked.seed), folder))
    _say(f"{outcome.accepted} turns; 1 to {outcome.most} workers, {outcome.last} at the end")
    if not outcome.rested:
        _say("did not come to rest")
    if outcome.most == policy.minimum or outcome.last != policy.minimum:
        _say("the fleet did not follow its backlog")
    convicted = judge([str(folder), "--limit", "3"])
    followed = outcome.most > policy.minimum == outcome.last
    return 0 if outcome.rested and followed and not convicted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
