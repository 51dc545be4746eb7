"""`make scaling`: load that comes and goes, workers that follow the backlog, and whether that costs a turn.

As in production, but a minute in a second: the relay logs the backlog, target tracking makes a number of tasks of it, tasks are
started, and ended by SIGTERM unless they are protected, as each task's agent was asked.
Exit code 1: the fleet did not grow or did not shrink again, something did not come to rest, or the checker convicted.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.proof.chaos import quick_minutes
from tests.proof.chaos.journal import now
from tests.proof.chaos.rig import Rig, open_rig
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import Part, pause
from tests.proof.chaos.target_tracking import Policy, Tracking, track
from tests.proof.checker.__main__ import main as judge
from tests.proof.checker.evidence import Fault
from tests.support.ecs_agent import Agent, ecs_agent

LEASE_SECONDS = 5.0
BACKLOG_SECONDS = 0.2
"""Between two looks at the relay's log."""
SHRINK_SECONDS = 90.0
"""After the last wave the fleet is back at its minimum within so long."""
FLOOD, EBB = (10.0, 40.0), (0.5, 40.0)
"""Turns a second, and for how many seconds."""


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The workers, and how many of them target tracking wants."""

    rig: Rig
    policy: Policy
    exits: AsyncExitStack
    most: int = 0
    """Workers at a time, so far."""
    _agents: dict[str, Agent] = field(default_factory=dict)
    _tracking: Tracking = field(init=False)
    _read: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tracking = Tracking(desired=self.policy.minimum)

    async def follow(self) -> None:
        """Has as many workers as target tracking wants, until it is cancelled."""
        await self._have(self._tracking.desired)
        while True:
            await pause(BACKLOG_SECONDS)
            for ready, running in await asyncio.to_thread(self._new_backlogs):
                await self._heed(ready, running)

    @property
    def tasks(self) -> list[Part]:
        return [part for part in self.rig.processes.of("worker") if part.wanted]

    async def _heed(self, ready: int, running: int) -> None:
        tasks, before = self.tasks, self._tracking.desired
        self._tracking = track(self.policy, self._tracking, ready + running, len(tasks))
        self.most = max(self.most, len(tasks))
        protected = sum(self._is_protected(part) for part in tasks)
        desired = self._tracking.desired
        if desired != before:
            _say(f"{ready} ready, {running} running: {len(tasks)} -> {desired} workers, {protected} protected")
        await self._have(desired)

    async def _have(self, many: int) -> None:
        for _ in range(many - len(self.tasks)):
            await self._start()
        # As ECS does it: protected tasks go on for now, so there may be more tasks than desired.
        spare = [part for part in self.tasks if not self._is_protected(part)]
        for part in spare[: max(len(self.tasks) - many, 0)]:
            part.wanted = False
            pid = self.rig.processes.send(part.name, signal.SIGTERM)
            target = f"{part.name} {pid}"
            self.rig.journal.write(Fault(at=now(), until=now(), kind="scale-in", target=target, pid=pid))

    async def _start(self) -> None:
        name = f"worker-{len(self._agents) + 1}"
        agent = self._agents[name] = self.exits.enter_context(ecs_agent())
        environment = await self.rig.variables(name, ECS_AGENT_URI=agent.uri, TURNSTILE_RELAY="false")
        await self.rig.processes.add(name, "worker", environment)

    def _is_protected(self, part: Part) -> bool:
        agent = self._agents[part.name]
        expired = time.monotonic() - agent.heard_at > quick_minutes.PROTECTED_SECONDS
        return bool(agent.wishes) and agent.enabled[-1] and not expired

    def _new_backlogs(self) -> list[tuple[int, int]]:
        """What the relay has logged since the last look: ready and running."""
        found = []
        for log in (self.rig.folder / "logs").glob("relay-*.log"):
            with log.open("rb") as file:
                file.seek(self._read.get(log, 0))
                lines = [line for line in file if line.endswith(b"\n")]
            self._read[log] = self._read.get(log, 0) + sum(map(len, lines))
            for line in lines:
                entry = json.loads(line) if line.startswith(b"{") else {}
                if entry.get("event") == "queue.backlog":
                    found.append((entry["ready"], entry["running"]))
        return found


async def scale(waves: int, policy: Policy, options: Options, folder: Path) -> bool:
    """Whether the fleet followed its backlog, and all came to rest. The evidence is in `folder`."""
    base = {quick_minutes.SWITCH: "yes"}
    async with open_rig(options, folder, base=base) as rig, AsyncExitStack() as exits:
        await rig.start()
        fleet = Fleet(rig=rig, policy=policy, exits=exits)
        following = asyncio.create_task(fleet.follow())
        for phase, (turns_per_second, seconds) in enumerate([FLOOD, EBB] * waves):
            stopping = asyncio.Event()
            pace = replace(options, turns_per_second=turns_per_second)
            talking = [asyncio.create_task(client.run()) for client in rig.clients(f"p{phase}c", stopping, pace)]
            ended, _ = await asyncio.wait({following}, timeout=seconds)
            stopping.set()
            await asyncio.gather(*talking)
            for each in ended:
                each.result()
        healed_at = now()
        rested_at = await rig.rest()
        deadline = now() + SHRINK_SECONDS
        while len(fleet.tasks) > policy.minimum and now() < deadline:
            await pause(BACKLOG_SECONDS)
        following.cancel()
        last = len(fleet.tasks)
        # Not a calm run for the checker: a worker that is ended while a turn has just begun hands it back, and it runs again.
        await rig.end(healed_at=healed_at, rested_at=rested_at, options=replace(options, kinds=("scale-in",)))
    _say(f"{rig.tally.accepted} turns; {policy.minimum} to {fleet.most} workers, {last} at the end")
    if rested_at is None:
        _say("did not come to rest")
    followed = fleet.most > policy.minimum == last
    if not followed:
        _say("the fleet did not follow its backlog")
    return rested_at is not None and followed


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
    # Turns that take their time and hardly any CPU: their number is what matters here.
    options = Options(
        seed=asked.seed,
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
    as_wanted = asyncio.run(scale(asked.waves, Policy(per_task=8, minimum=1, maximum=6), options, folder))
    convicted = judge([str(folder), "--limit", "3"])
    return 0 if as_wanted and not convicted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
