"""`python -m tests.proof.chaos.failover`: the primary of a real Redis dies in mid-run, twice, and what that costs is judged.

The processes work on a primary that sentinels watch, or on a cluster of three, without a proxy. What the dead primary had not
yet sent to its replicas is gone: locks, marks, streams, histories, items. Exit code 1: no replica took over, something did not
come to rest, or the checker convicted.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.quiescence import find_locks
from tests.proof.chaos.rig import open_rig
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.__main__ import main as judge
from tests.proof.checker.evidence import Fault
from tests.support.fleet.fleets import Fleet, cluster, sentinel_trio
from tests.support.fleet.servers import Server, program_of

FAILOVERS = 2
TAKEN_OVER_SECONDS = 30.0
LOOK_SECONDS = 0.05


FLEETS = {"sentinels": sentinel_trio, "cluster": cluster}


async def fail_over(kind: str, between_seconds: float, options: Options, folder: Path) -> bool:
    """Whether all came to rest; its evidence is in `folder`. Raises TimeoutError where no replica takes over."""
    async with open_rig(options, folder) as rig, AsyncExitStack() as exits:
        servers = rig.servers
        opening = FLEETS[kind](program_of(servers.stack), replicas=FAILOVERS)
        fleet = await asyncio.to_thread(exits.enter_context, opening)
        servers.redis_url = fleet.url
        await rig.start()
        quiet = asyncio.Event()
        talking = [asyncio.create_task(client.run()) for client in rig.clients("c", quiet)]
        primary = fleet.primaries[0]
        for _ in range(FAILOVERS):
            await pause(between_seconds)
            primary = await _take_over(fleet, primary, rig.journal)
        await pause(between_seconds)
        healed_at = now()
        await pause(1.0)
        quiet.set()
        await asyncio.gather(*talking)
        rested_at = await rig.rest()
        await rig.end(healed_at=healed_at, rested_at=rested_at)
        for server in (primary, *fleet.primaries[1:]):
            for key in await asyncio.to_thread(list, find_locks(server.client, servers.redis_prefix)):
                rig.journal.write(key)
    _say(f"{rig.tally.accepted} turns" + ("" if rested_at else "; did not come to rest"))
    return rested_at is not None


async def _take_over(fleet: Fleet, primary: Server, journal: Journal) -> Server:
    began = now()
    primary.kill()
    while (successor := await asyncio.to_thread(fleet.successor)) is None:
        if now() - began > TAKEN_OVER_SECONDS:
            raise TimeoutError(f"no replica took over within {TAKEN_OVER_SECONDS:g} s")
        await pause(LOOK_SECONDS)
    journal.write(Fault(at=began, until=now(), kind="redis-failover", target=f"{primary.port} -> {successor.port}"))
    _say(f"a replica took over after {now() - began:.1f} s")
    return successor


def _say(text: str) -> None:
    print(f"failover: {text}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.chaos.failover", description="A Redis that fails over."
    )
    parser.add_argument("--fleet", choices=FLEETS, action="append", help="both, unless said")
    parser.add_argument("--between", type=float, default=15.0, help="seconds before each failover, and after the last")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the evidence goes")
    asked = parser.parse_args(arguments)
    home = asked.folder or Path(tempfile.mkdtemp(prefix="failover-"))
    options = Options(
        seed=asked.seed, kinds=("redis-failover",), clients=10, memory=0.2, conversations=0, workers=3, relays=1
    )
    failed = False
    for kind in asked.fleet or FLEETS:
        _say(f"{kind}, seed {asked.seed}, evidence in {home / kind}")
        rested = asyncio.run(fail_over(kind, asked.between, options, home / kind))
        failed |= bool(judge([str(home / kind), "--limit", "3"])) or not rested
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
