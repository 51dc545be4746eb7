"""What a worker process of `turnstile dev` runs. It is forked from a process that has imported all of this already: a new worker
costs only the import of the user's code.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from turnstile.config.config_file import load as load_settings
from turnstile.dev.reload.code_error import describe
from turnstile.dev.reload.shown_errors import show_errors
from turnstile.errors import SettingsError, TurnstileError
from turnstile.ops.terminal.exit_codes import ExitCode, explain
from turnstile.ops.terminal.output import say
from turnstile.process import logs
from turnstile.worker.lifecycle.handler_loading import load
from turnstile.worker.worker_process import serve


def run(environment: Mapping[str, str], handler: str, report: Connection) -> None:
    """Runs a worker with this environment. Sends one report: None as soon as the handler is loaded, or why it can't be."""
    # Ctrl-C in the terminal is for `turnstile dev`, which then stops this process.
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    # Python takes two sources of equal length and second for the same: after a quick change it would run the older bytecode.
    sys.dont_write_bytecode = True
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        settings = load_settings(handler=handler)
        logs.configure(settings)
        loaded = load(handler)
    except SettingsError as error:
        cause = error.__cause__
        report.send(str(error) if cause is None else describe(cause, Path.cwd()))
        sys.exit(ExitCode.USAGE)
    report.send(None)
    report.close()
    try:
        serve(settings, show_errors(loaded, Path.cwd()))
    except TurnstileError as error:
        code, line = explain(error)
        say(f"turnstile: {line}")
        sys.exit(code)


def _end_with_parent() -> None:
    """`turnstile dev` may be killed: without it, nobody would ever end this worker."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - this process is always a child
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
