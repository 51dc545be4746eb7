"""`python -m tests.proof.chaos.soak`: hours at half load, and whether anything leaks.

The load is half of what the same processes can do on this machine, measured at the start. After a warm-up everything rests
and a baseline is taken; after the soak everything rests again and is compared with it. No fault is meant to happen, and the
checker looks at the whole run as at any other: every handler must have settled its turn.

Pools are made comparable at both ends: they give back what they don't need, and are waited for.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

from tests.proof.chaos.fork_server import TASKS
from tests.proof.chaos.journal import now
from tests.proof.chaos.resources import Usage, count_connections, measure
from tests.proof.chaos.rig import Rig, open_rig
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.__main__ import main as judge
from turnstile.backends.postgres.database import IDLE_SECONDS

MEASURE_SECONDS = 30.0
WARM_UP_SECONDS = 120.0
CALM_SECONDS = 2.5 * IDLE_SECONDS
"""The connections have stayed the same for so long: the pools have no more to give back, and keep-alives have idled out."""
MAX_CALM_SECONDS = 10 * IDLE_SECONDS
SAMPLE_EVERY_SECONDS = 15.0
LEASE_SECONDS = 15.0
"""Production's order of magnitude: a machine that others use too must not cost a lease."""

SLACK = {"descriptors": 3, "threads": 2, "tasks": 4}
CONNECTIONS_OF_A_PROCESS = 1
"""At rest a process may have so many more connections to a server: a pool that is never idle for long, as the heartbeat's to
Redis, keeps its peak, and an hour has higher peaks than the warm-up."""
CONNECTIONS_UNDER_LOAD = 2
"""The load is even, and so are the connections once the pools have had their peaks. A leak goes on growing: the median of the
last quarter of the load may be so much above that of the second."""
RSS_SHARE = 0.10
"""RSS may have grown by so much: an allocator's arenas settle within the first hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    at: float
    usage: dict[str, Usage]
    connections: dict[str, int]


@dataclass(slots=True, kw_only=True)
class Soak:
    rig: Rig
    rounds: int = 0
    under_load: list[Moment] = field(default_factory=list)
    """The samples of the newest load."""

    async def load(self, seconds: float, turns_per_second: float | None) -> float:
        """Lets clients call for so long, then waits until all has settled; the turns accepted a second."""
        rig, stopping = self.rig, asyncio.Event()
        options = replace(rig.options, turns_per_second=turns_per_second, pause_seconds=0.01)
        self.rounds += 1
        self.under_load = []
        before, begun = rig.tally.accepted, time.monotonic()
        clients = rig.clients(f"r{self.rounds}c", stopping, options)
        talking = [asyncio.create_task(each.run()) for each in clients]
        deadline = begun + seconds
        while (left := deadline - time.monotonic()) > 0:
            await pause(min(left, SAMPLE_EVERY_SECONDS))
            self.under_load.append(await self.look())
        rate = (rig.tally.accepted - before) / (time.monotonic() - begun)
        stopping.set()
        await asyncio.gather(*talking)
        if await rig.rest() is None:
            raise RuntimeError("the load did not come to rest")
        return rate

    async def look(self) -> Moment:
        folder = self.rig.folder
        usage = await measure(self.rig.processes.parts.values(), folder / "tasks")
        connections = await asyncio.to_thread(count_connections, self.rig.servers)
        moment = Moment(at=now(), usage=usage, connections=connections)
        with (folder / "resources.jsonl").open("a") as file:
            file.write(json.dumps(asdict(moment)) + "\n")
        return moment

    async def calm(self) -> Moment:
        """What is used once nothing more is given back."""
        begun = unchanged_since = time.monotonic()
        moment = await self.look()
        while time.monotonic() - unchanged_since < CALM_SECONDS and time.monotonic() - begun < MAX_CALM_SECONDS:
            await pause(SAMPLE_EVERY_SECONDS)
            was, moment = moment, await self.look()
            if was.connections != moment.connections:
                unchanged_since = time.monotonic()
        return moment


def leaks(before: Moment, after: Moment) -> list[str]:
    """What is used now and was not then, beyond the slack."""
    found = []
    for name, was in before.usage.items():
        used = after.usage.get(name)
        if used is None or used.pid != was.pid:
            found.append(f"{name} is not the process it was")
            continue
        for what, slack in {**SLACK, "rss_kb": was.rss_kb * RSS_SHARE}.items():
            if getattr(used, what) > getattr(was, what) + slack:
                found.append(f"{name}: {what} {getattr(was, what)} -> {getattr(used, what)}")
    for server, count in before.connections.items():
        if after.connections[server] > count + CONNECTIONS_OF_A_PROCESS * len(before.usage):
            found.append(f"connections to {server}: {count} -> {after.connections[server]}")
    return found


def growth(under_load: Sequence[Moment]) -> list[str]:
    """The servers to which connections went on growing."""
    quarter = len(under_load) // 4
    if not quarter:
        return []
    found = []
    for server in under_load[0].connections:
        early, late = (
            median(moment.connections[server] for moment in part)
            for part in (under_load[quarter : 2 * quarter], under_load[-quarter:])
        )
        if late > early + CONNECTIONS_UNDER_LOAD:
            found.append(f"connections to {server} under load: {early:g} -> {late:g}")
    return found


async def soak(minutes: float, options: Options, folder: Path) -> list[str]:
    """Makes a soak; what had leaked. Its evidence is in `folder`."""
    async with open_rig(options, folder, base={TASKS: str(folder / "tasks")}) as rig:
        await rig.start()
        at_work = Soak(rig=rig)
        most = await at_work.load(MEASURE_SECONDS, None)
        _say(f"these processes can do {most:.0f} turns/s here")
        await at_work.load(WARM_UP_SECONDS, most / 2)
        before = await at_work.calm()
        rate = await at_work.load(60 * minutes, most / 2)
        under_load = at_work.under_load
        after = await at_work.calm()
        _say(f"{rig.tally.accepted} turns in all, {rate:.1f}/s over {minutes:g} min")
        _table(before, after)
        rested_at = now()
        await rig.end(healed_at=rested_at, rested_at=rested_at)
    return leaks(before, after) + growth(under_load)


def _table(before: Moment, after: Moment) -> None:
    columns = (*SLACK, "rss_kb")
    print(f"{'':<12}" + "".join(f"{what:>20}" for what in columns))
    for name, was in before.usage.items():
        used = after.usage.get(name, was)
        print(f"{name:<12}" + "".join(f"{getattr(was, what):>9} ->{getattr(used, what):>8}" for what in columns))
    for server, count in before.connections.items():
        print(f"connections to {server}: {count} -> {after.connections[server]}")


def _say(text: str) -> None:
    print(f"soak: {text}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Soaks as asked for. Exit code 1: something leaked, or the checker convicted."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.chaos.soak", description="Half load for a long time.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where the evidence goes")
    asked = parser.parse_args(arguments)
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="soak-"))
    options = Options(seed=asked.seed, kinds=("none",), clients=16, lease_seconds=LEASE_SECONDS, turns_a_session=50)
    _say(f"seed {asked.seed}, evidence in {folder}")
    found = asyncio.run(soak(asked.minutes, options, folder))
    for leak in found:
        _say(f"LEAK {leak}")
    convicted = judge([str(folder), "--limit", "3"])
    return 1 if found or convicted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
