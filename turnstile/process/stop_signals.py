"""The signals that ask a process to stop, and what becomes of them in a process that is forked from it.

A fork inherits the signal handlers, and the socket into which Python writes the number of each signal: what is sent to the child
would stop the parent. What a signal then stops is in `worker.lifecycle.shutdown`, `producer.server` and `relay.relay_process`.

User code forks (`multiprocessing`), so a child begins as a plain program does: SIGTERM ends it.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from functools import cache

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_forking = threading.local()


def on_stop_signal(stop: Callable[[int], object]) -> None:
    """Calls `stop` with the number of each such signal, on the running event loop. For the main thread."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        # An ignored signal stays ignored: SIGHUP under nohup, SIGINT of `turnstile worker &` in a script.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    _keep_from_children()


@cache
def _keep_from_children() -> None:
    # Held back during the fork: a signal that reaches the child before its own handlers are in place would still be the parent's.
    os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_begin_as_child)


def _hold_back() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _begin_as_child() -> None:
    signal.set_wakeup_fd(-1)
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    _let_through()
