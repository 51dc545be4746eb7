"""Handlers that fork their worker. The input names one of the functions below; the reply says what became of the child."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from turnstile import Context, Turn, handler

FORKS = multiprocessing.get_context("fork")


def end_a_process() -> Any:
    """A child that is ended right after its start."""
    child = FORKS.Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join(20)
    return child.exitcode


def limit_a_pool() -> Any:
    """A pool whose task takes too long: the end of the block sends SIGTERM to its processes."""
    with FORKS.Pool(2) as pool:
        try:
            return pool.apply_async(time.sleep, (60,)).get(timeout=0.5)
        except multiprocessing.TimeoutError:
            return "took too long"


def leave_a_process() -> Any:
    """A child that outlives its handler."""
    child = FORKS.Process(target=time.sleep, args=(60,), daemon=True)
    child.start()
    return child.pid


def return_in_a_fork() -> Any:
    """A child that returns into the worker's code."""
    if (child := os.fork()) == 0:
        return "from the child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def exit_in_a_fork() -> Any:
    """A child that leaves by SystemExit."""
    if (child := os.fork()) == 0:
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


DONE: dict[str, Callable[[], Any]] = {
    one.__name__: one for one in (end_a_process, limit_a_pool, leave_a_process, return_in_a_fork, exit_in_a_fork)
}


@handler
async def act(turn: Turn, ctx: Context) -> Any:
    """Forks on the event loop's thread."""
    return _act(turn)


@handler
def act_in_thread(turn: Turn, ctx: Context) -> Any:
    """Forks in a thread."""
    return _act(turn)


def _act(turn: Turn) -> Any:
    # The tests' workers are daemons of multiprocessing themselves, which may have no children.
    multiprocessing.current_process().daemon = False
    return DONE[turn.input]()
