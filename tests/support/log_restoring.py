"""The log of this process, which a test that runs a command in it sets up and leaves behind otherwise."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from turnstile.config import logs


@contextmanager
def log_restored() -> Iterator[None]:
    """A command that runs inside sets up the log as ever, and its set-up ends with the block.

    Without it a module's logger whose first line is said inside keeps the command's stream, closed by then, for good:
    hence no caching inside.
    """
    configure = structlog.configure
    root = logging.getLogger()
    handlers, level, process = root.handlers[:], root.level, dict(logs._process)
    # An operator's command silences it.
    pool = logging.getLogger("psycopg.pool")
    pool_level = pool.level

    def configure_uncached(**chosen: Any) -> None:
        configure(**{**chosen, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(structlog, "configure", configure_uncached)
        yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    pool.setLevel(pool_level)
    logs._process.clear()
    logs._process.update(process)
