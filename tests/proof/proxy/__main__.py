"""python -m tests.proof.proxy --control PORT --folder FOLDER --seed N --postgres HOST:PORT --redis HOST:PORT --sqs HOST:PORT

Prints the control port when it is ready. Ends on SIGTERM, or when its standard input ends: a harness that is killed
leaves no proxy behind.
"""

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.proof.proxy.server import Address, FaultProxy
from tests.proof.proxy.toxics import SERVICES


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def serve(proxy: FaultProxy, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    # A file can't be watched: then only a signal ends it.
    with suppress(PermissionError):
        loop.add_reader(sys.stdin, lambda: None if os.read(sys.stdin.fileno(), 4096) else stopped.set())
    print(await proxy.listen(port), flush=True)
    await stopped.wait()
    proxy.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.proxy", description=__doc__)
    parser.add_argument("--control", type=int, default=0, help="control port; 0: any that is free")
    parser.add_argument("--folder", type=Path, required=True, help="where the SQS calls are written to")
    parser.add_argument("--seed", type=int, default=0)
    for service in SERVICES:
        parser.add_argument(f"--{service}", type=address, metavar="HOST:PORT")
    given = parser.parse_args()
    upstreams = {name: getattr(given, name) for name in SERVICES if getattr(given, name) is not None}
    # Two for every connection of all processes of the product.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Traffic makes no cycles worth a full collection of everything that was imported.
    gc.freeze()
    asyncio.run(serve(FaultProxy(upstreams, given.folder, given.seed), given.control))


if __name__ == "__main__":
    main()
