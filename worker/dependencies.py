"""The dependencies of a processor, and the signals that stop it."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.resources import Resources
from turnstile.worker.slots.slots import Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """Made by `worker.composition`."""

    resources: Resources
    heartbeat: Heartbeat
    threads: Executor
    slots: Slots
    is_full: Callable[[], bool]
    """Whether at least as many turns are in work as there are slots."""
    nudge_relay: Callable[[], None]
    stopping: asyncio.Event
    """When set, no more turns are begun."""
    given_up: asyncio.Event
    """When set, an outage of the database is no longer waited for."""
    recovers: bool = False
    """Whether this process looks for lost turns by itself (`worker.takeover`): then their messages may be deleted."""
    longest_attempt_seconds: float = math.inf
    """The upper bound of every attempt's timeout, for a process that ends at a known time."""
