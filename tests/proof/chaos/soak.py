"""`python -m tests.proof.chaos.soak`: hours at half load, and whether anything leaks.

The load is half of what the same cast can do on this machine, measured at the start. After a warm-up everything rests and
a baseline is taken; after the soak everything rests again and is held against it. No fault is meant to happen, and the
checker looks at the whole run as at any other: not one handler may have run in vain.

Pools are made comparable at both ends: they give back what they don't need, and are waited for.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.proof.chaos.company import Company, open_company
from tests.proof.chaos.fork_server import TASKS
from tests.proof.chaos.journal import now
from tests.proof.chaos.resources import Connections, Holding, count_connections, look_at
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.__main__ import main as judge
from turnstile.backends.postgres.database import IDLE_SECONDS

MEASURE_SECONDS = 30.0
WARM_UP_SECONDS = 120.0
CALM_SECONDS = 2.5 * IDLE_SECONDS
"""The connections have stayed the same for so long: the pools give back no more, and keep-alives have idled out."""
MAX_CALM_SECONDS = 10 * IDLE_SECONDS
SAMPLE_EVERY_SECONDS = 15.0
LEASE_SECONDS = 15.0
"""Production's order of magnitude: a machine that others use too must not cost a lease."""

SLACK = {"descriptors": 3, "threads": 2, "tasks": 4}
RSS_SHARE = 0.10
"""RSS may have grown by so much: an allocator's arenas settle within the first hour."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All that is held at one moment."""

    holdings: dict[str, Holding]
    connections: Connections


@dataclass(slots=True, kw_only=True)
class Soak:
    """Processes under load, and what they hold."""

    company: Company
    rounds: int = 0

    async def load(self, seconds: float, turns_per_second: float | None) -> float:
        """Lets clients talk for so long, then waits until all has settled; the turns accepted a second."""
        company, stopping = self.company, asyncio.Event()
        options = replace(company.options, turns_per_second=turns_per_second, pause_seconds=0.01)
        self.rounds += 1
        before, begun = company.tally.accepted, time.monotonic()
        clients = company.clients(f"r{self.rounds}c", stopping, options)
        talking = [asyncio.create_task(each.run()) for each in clients]
        await self._sample_for(seconds)
        rate = (company.tally.accepted - before) / (time.monotonic() - begun)
        stopping.set()
        await asyncio.gather(*talking)
        if await company.rest() is None:
            raise RuntimeError("the load did not come to rest")
        return rate

    async def look(self) -> Moment:
        folder = self.company.folder
        holdings = await look_at(self.company.cast.parts.values(), folder / "tasks")
        moment = Moment({each.name: each for each in holdings}, await count_connections(self.company.stage))
        with (folder / "resources.jsonl").open("a") as file:
            file.writelines(json.dumps(asdict(each)) + "\n" for each in (*holdings, moment.connections))
        return moment

    async def calm(self) -> Moment:
        """What is held once nothing more is given back."""
        begun = unchanged_since = time.monotonic()
        moment = await self.look()
        while time.monotonic() - unchanged_since < CALM_SECONDS and time.monotonic() - begun < MAX_CALM_SECONDS:
            await pause(SAMPLE_EVERY_SECONDS)
            was, moment = moment, await self.look()
            if _opened(was) != _opened(moment):
                unchanged_since = time.monotonic()
        return moment

    async def _sample_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            await pause(min(left, SAMPLE_EVERY_SECONDS))
            await self.look()


def _opened(moment: Moment) -> tuple[int, int]:
    return moment.connections.postgres, moment.connections.redis


def leaks(before: Moment, after: Moment) -> list[str]:
    """What is held now and was not then, beyond the slack."""
    found = []
    for name, was in before.holdings.items():
        held = after.holdings.get(name)
        if held is None or held.pid != was.pid:
            found.append(f"{name} is not the process it was")
            continue
        for what, slack in SLACK.items():
            if getattr(held, what) > getattr(was, what) + slack:
                found.append(f"{name}: {what} {getattr(was, what)} -> {getattr(held, what)}")
        if held.rss_kb > was.rss_kb * (1 + RSS_SHARE):
            found.append(f"{name}: RSS {was.rss_kb} -> {held.rss_kb} kB")
    for server in ("postgres", "redis"):
        was_open, is_open = getattr(before.connections, server), getattr(after.connections, server)
        if is_open > was_open + 2:
            found.append(f"{server} connections {was_open} -> {is_open}")
    return found


async def soak(minutes: float, options: Options, folder: Path) -> list[str]:
    """Makes a soak; what had leaked. Its evidence is in `folder`."""
    async with open_company(options, folder, base={TASKS: str(folder / "tasks")}) as company:
        await company.start()
        at_work = Soak(company=company)
        most = await at_work.load(MEASURE_SECONDS, None)
        _say(f"these processes can do {most:.0f} turns/s here")
        await at_work.load(WARM_UP_SECONDS, most / 2)
        before = await at_work.calm()
        rate = await at_work.load(60 * minutes, most / 2)
        after = await at_work.calm()
        _say(f"{company.tally.accepted} turns in all, {rate:.1f}/s over {minutes:g} min")
        _table(before, after)
        rested_at = now()
        await company.end(healed_at=rested_at, rested_at=rested_at)
    return leaks(before, after)


def _table(before: Moment, after: Moment) -> None:
    print(f"{'':<12}{'descriptors':>16}{'threads':>12}{'tasks':>12}{'RSS MB':>16}")
    for name, was in before.holdings.items():
        held = after.holdings.get(name, was)
        figures = [f"{getattr(was, what)} -> {getattr(held, what)}" for what in SLACK]
        rss = f"{was.rss_kb / 1024:.1f} -> {held.rss_kb / 1024:.1f}"
        print(f"{name:<12}{figures[0]:>16}{figures[1]:>12}{figures[2]:>12}{rss:>16}")
    was_open, is_open = before.connections, after.connections
    print(f"connections: Postgres {was_open.postgres} -> {is_open.postgres}, Redis {was_open.redis} -> {is_open.redis}")


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
