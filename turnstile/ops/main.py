"""The entry point of the `turnstile` command, and what a signal does while the program is being loaded."""

import os
import signal
import sys
from io import TextIOWrapper
from typing import Any

from turnstile.process.core_files import forbid_core_files


def main() -> None:
    """Runs the `turnstile` command."""
    forbid_core_files()
    _exchange(signal.SIGINT, signal.default_int_handler, _leave)
    # The default action does not work in a container: for process 1, the kernel ignores a signal without a handler. A worker that
    # was stopped while it loaded its turn handler continued, took turns, and was later killed with them. `api`, `worker` and
    # `relay` install their own handlers; all other commands may be killed at any point: Postgres rolls back uncommitted work.
    _exchange(signal.SIGTERM, signal.SIG_DFL, _leave)

    # What the caller has closed (`<&-`, `2>&-`) is empty: otherwise the first read or log line would fail.
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, TextIOWrapper):
        # `…` in latin-1: escaped rather than the end of the command.
        sys.stdout.reconfigure(errors="backslashreplace")

    from turnstile.ops.command_list import app

    _exchange(signal.SIGINT, _leave, signal.default_int_handler)
    app(prog_name="turnstile")


def _exchange(number: signal.Signals, was: Any, now: Any) -> None:
    # Replaces only the expected handler: a process that ignores SIGINT (`turnstile api &` in a script) must still ignore it.
    if signal.getsignal(number) is was:
        signal.signal(number, now)


def _leave(number: int, _: object) -> None:
    # No work has started, so there is nothing to clean up or report.
    os._exit(128 + number)


if __name__ == "__main__":
    main()
