"""Processes of the product without a second of imports for each: forked from one process that has imported it.

Real processes with real signals and exit codes; only how they come to be is different. That `turnstile worker` and
`turnstile api` start from nothing as well is tested elsewhere (tests/producer/api/test_serving.py).
"""

import multiprocessing
import os
import shlex
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Thread

from tests.proof.chaos.fork_server import IMPORTED_BEFORE

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(list(IMPORTED_BEFORE))


def fork(command: str, environment: Mapping[str, str], log: Path) -> ForkServerProcess:
    """Starts `turnstile <command>`, whose output goes to the log. `command` may have options.

    It ends with this process, also if that is killed.
    """
    process = _FORKS.Process(target=_run, args=(command, dict(environment), log), daemon=True)
    process.start()
    return process


def _run(command: str, environment: Mapping[str, str], log: Path) -> None:
    Thread(target=_end_with_the_tests, daemon=True).start()
    os.setsid()
    with log.open("ab") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
    os.environ.update(environment)
    sys.argv = ["turnstile", *shlex.split(command)]
    from turnstile.ops.main import main

    main()


def _end_with_the_tests() -> None:
    if (tests := multiprocessing.parent_process()) is not None:
        tests.join()
    os._exit(1)
