"""The settings of a run: the product's durations made small, so that half a minute takes a second.

Their ratios stay those of production where the nesting of time-outs depends on them.
"""

import json
import math
from dataclasses import dataclass

from tests.proof.chaos.workload import HISTORIES

LEASE_SECONDS = 1.5
VISIBILITY_SECONDS = 4
MAX_CRASHES = 3
WATCHDOG_SECONDS = 4.0
TIMEOUT_SECONDS = 6.0

TENANTS = {"alpha": "alpha-key-of-the-chaos-run", "beta": "beta-key-of-the-chaos-run"}
API_KEYS = ",".join(f"{tenant}:{key}" for tenant, key in TENANTS.items())
HANDLER = "tests.proof.chaos.handler:act"
QUEUE = "chaos"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    seed: int = 1
    seconds: float = 60.0
    """How long faults strike and clients talk."""
    turns: int | None = None
    """Goes on until so many turns have been accepted, however long that takes."""
    faults: int | None = None
    """... and so many faults have struck."""
    kinds: tuple[str, ...] = ()
    """Only these; all when empty. `none` among them means a calm run."""
    fifo: bool = False
    halt: bool = False
    """A FAILED turn halts its session until the run's operator decides."""
    clients: int = 12
    sessions: int = 5
    """How many sessions each client has at a time; each lasts for some turns."""
    turns_a_session: int = 25
    """A session that has got so many is left for a new one."""
    memory: float = 0.0
    """The share of turns that use their session's memory, beyond those of the ordinary mixture."""
    histories: float = HISTORIES
    """The share of turns whose handler writes down the history that it was shown."""
    conversations: int = 3
    """With the bundled handler, at a time."""
    cancels: float = 0.05
    """The share of calls that cancel something."""
    erasures: float = 0.0
    """The share of calls that erase a session in which turns run."""
    transactions: float = 0.1
    """The share of turns that an application submits in a transaction of its own, and not over the API."""
    rotations: int = 0
    """How often the keys of contents are replaced. With one, all contents are sealed from the start."""
    families: float = 0.05
    """The share of turns that start others, or do something once."""
    pause_seconds: float = 0.15
    """Between two calls of one client, on average."""
    between_faults_seconds: float = 1.2
    lanes: int = 3
    """Faults at the same time."""
    turns_per_second: float | None = None
    """Instead of a pause: about so many turns a second of all clients together, however quick the answers are."""
    sleep_seconds: tuple[float, float] = (0.02, 0.4)
    """How long a slow handler takes."""
    speeches: float = 0.0
    """The share of turns that speak for seconds, besides those of the ordinary mixture."""
    lease_seconds: float = LEASE_SECONDS
    tenant_slots: int | None = 4
    """What one tenant may have of a worker's slots; None: all. In a calm run all: a deferred session is not answered at once."""
    places: int | None = None
    """How many turns of one tenant all workers may run at a time, by a limit. With it no settle claims the next turn."""
    workers: int = 4
    apis: int = 2
    relays: int = 2
    bound_seconds: float = 90.0
    plant: str | None = None
    """A planted bug, switched on in every process of the product."""

    @property
    def is_calm(self) -> bool:
        return self.kinds == ("none",)

    @property
    def tenant_cap(self) -> int | None:
        return None if self.is_calm else self.tenant_slots


def scaled(options: Options, queue: str, dlq: str) -> dict[str, str]:
    """The settings that all processes of a run have in common."""
    declared = {
        "name": QUEUE,
        "sqs": queue,
        "dlq": dlq,
        "visibility_seconds": max(VISIBILITY_SECONDS, math.ceil(options.lease_seconds)),
        "timeout_seconds": TIMEOUT_SECONDS,
        "max_attempts": 4,
        "max_crashes": MAX_CRASHES,
        "expires_in_seconds": 600.0,
        "on_failure": "halt" if options.halt else "dead_letter",
    }
    limits = [{"name": "tenants", "key": "tenant", "concurrency": options.places}] if options.places else []
    return {
        "TURNSTILE_QUEUES": json.dumps([declared]),
        "TURNSTILE_LIMITS": json.dumps(limits),
        "TURNSTILE_QUEUE": QUEUE,
        "TURNSTILE_HANDLER": HANDLER,
        "TURNSTILE_API_KEYS": API_KEYS,
        "TURNSTILE_CONCURRENCY": "16",
        "TURNSTILE_TENANT_SLOTS": str(options.tenant_cap or "all"),
        "TURNSTILE_LEASE_SECONDS": str(options.lease_seconds),
        "TURNSTILE_RESEND_SECONDS": "4",
        "TURNSTILE_RELAY_TICK_SECONDS": "0.2",
        "TURNSTILE_RELAY_STAMP_SECONDS": "2.0",
        "TURNSTILE_TAKEOVER_RESEND_SECONDS": "0.5",
        "TURNSTILE_RECEIVE_WAIT_SECONDS": "1",
        "TURNSTILE_GRACE_SECONDS": "1",
        "TURNSTILE_CANCEL_GRACE_SECONDS": "0.5",
        "TURNSTILE_RETRY_BASE_SECONDS": "0.1",
        "TURNSTILE_RETRY_CAP_SECONDS": "1",
        "TURNSTILE_WATCHDOG_SECONDS": str(max(WATCHDOG_SECONDS, options.lease_seconds)),
        "TURNSTILE_SESSION_RUN_SECONDS": "5",
        "TURNSTILE_STREAM_HEARTBEAT_SECONDS": "1",
        # Small enough to overflow.
        "TURNSTILE_HISTORY_MESSAGES": "24",
        "TURNSTILE_LOG_LEVEL": "info",
        "TURNSTILE_LOG_FORMAT": "json",
    }
