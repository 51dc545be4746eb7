"""The fork server: starts the product's processes within milliseconds, as real processes with real signals.

A `turnstile worker` needs a second of CPU for its imports; a run that kills one every second would measure imports. This
process imports everything once, before any thread or event loop exists, and then forks a child for each line it reads:

    {"argv": ["worker"], "environment": {...}, "logs": "<folder>", "role": "worker"}   ->   {"pid": 4711}

and says `{"ended": 4711, "code": -9}` when one ends. When its own input ends, so do its children.
"""

import asyncio
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tests.proof.chaos import quick_minutes, webhook_receiver

IMPORTED_BEFORE = (
    "turnstile.ops.command_list",
    "turnstile.ops.serve_command",
    "turnstile.worker.worker_process",
    "turnstile.producer.app",
    "turnstile.relay.relay_process",
    "turnstile.ops.dead_letters.redrive",
    "turnstile.ops.dead_letters.redrive_command",
    "turnstile.ops.reseal.reseal_command",
    "turnstile.sealing.data_keys",
    "turnstile.ops.terminal.operator_access",
    "uvicorn.protocols.http.auto",
    "uvicorn.loops.auto",
    "uvicorn.lifespan.on",
    "tests.proof.chaos.handler",
    "tests.proof.planted_bugs.catalogue",
    "botocore.retries.standard",
)

CLOCK_SHIFT = "CHAOS_CLOCK_SHIFT_SECONDS"
PLANT = "CHAOS_PLANTED_BUG"
TASKS = "CHAOS_TASKS_FILE"
"""Where a process that gets SIGUSR2 writes how many asyncio tasks it has."""


def main() -> None:
    for name in IMPORTED_BEFORE:
        importlib.import_module(name)
    # What is shared with the children stays shared: no collection touches it.
    gc.freeze()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    say({"ready": os.getpid()})
    buffer = b""
    while True:
        ready, _, _ = select.select([0, wake_read], [], [])
        if wake_read in ready:
            with suppress(BlockingIOError):
                os.read(wake_read, 4096)
            _reap(children)
        if 0 in ready:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                pid = _fork(json.loads(line), (wake_read, wake_write))
                children.add(pid)
                say({"pid": pid})
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _reap(children: set[int]) -> None:
    for pid in list(children):
        with suppress(ChildProcessError):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.discard(pid)
                say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _fork(order: dict[str, Any], pipes: tuple[int, int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pipe in pipes:
            os.close(pipe)
        _become(order)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(99)


def _become(order: dict[str, Any]) -> NoReturn:
    os.setsid()
    log = Path(order["logs"]) / f"{order['role']}-{os.getpid()}.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (descriptor, 1), (descriptor, 2)):
        os.dup2(source, target)
    os.environ.update(order["environment"])
    for variable, switch in SWITCHES.items():
        if variable in os.environ:
            switch(os.environ[variable])
    sys.argv = ["turnstile", *order["argv"]]
    from turnstile.ops.main import main as turnstile

    code: Any = 0
    try:
        turnstile()
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _count_tasks(file: str) -> None:
    def count(*_: object) -> None:
        try:
            tasks = len(asyncio.all_tasks())
        except RuntimeError:
            # The signal came in a moment without a running loop.
            tasks = 0
        with Path(file).open("a") as lines:
            lines.write(f"{os.getpid()} {tasks}\n")

    signal.signal(signal.SIGUSR2, count)


def _shift_clock(shift: str) -> None:
    """Shifts the time of day of Python in this process alone."""
    seconds = float(shift)
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + int(seconds * 1e9)


def _plant(bug: str) -> None:
    from tests.proof.planted_bugs.catalogue import BUGS

    BUGS[bug].plant()


SWITCHES: dict[str, Callable[[str], None]] = {
    CLOCK_SHIFT: _shift_clock,
    TASKS: _count_tasks,
    webhook_receiver.CERTIFICATE: webhook_receiver.reach_receiver,
    quick_minutes.SWITCH: quick_minutes.switch_on,
    PLANT: _plant,
}
"""What a process does before it begins, where this variable is set."""


if __name__ == "__main__":
    main()
