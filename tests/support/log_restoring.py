"""The log of this process, which a test that runs a command in it sets up and leaves behind otherwise."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from turnstile.process import logs
from turnstile.telemetry.own_log import OUTPUT, PROCESSORS


@contextmanager
def log_restored() -> Iterator[None]:
    """A command that runs inside sets up the log as ever, and its set-up ends with the block.

    `capture_logs` empties the default processors for a while: so those of our own log are the default.
    """
    own, output = PROCESSORS[:], OUTPUT.logger
    root = logging.getLogger()
    handlers, level, process = root.handlers[:], root.level, dict(logs._process)
    # An operator's command silences it.
    pool = logging.getLogger("psycopg.pool")
    pool_level = pool.level

    structlog.configure(processors=PROCESSORS)
    yield
    structlog.reset_defaults()
    PROCESSORS[:], OUTPUT.logger = own, output
    root.handlers[:] = handlers
    root.setLevel(level)
    pool.setLevel(pool_level)
    logs._process.clear()
    logs._process.update(process)
