"""What a seed decides before a simulated run: settings, size of the cluster, workload and kinds of faults."""

from dataclasses import dataclass
from random import Random
from typing import Any

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.worker.slots.tenant_fairness import TenantShare

TENANTS = ("alpha", "beta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One life, as far as it is known beforehand. Times are virtual seconds."""

    seed: int
    fifo: bool
    turns: int
    workers: int
    relays: int
    faulty_seconds: float
    sessions: int
    in_thread: bool
    settings: Settings
    kinds: tuple[str, ...]
    """The kinds of faults that strike."""
    strikes: int

    @property
    def queue(self) -> QueueSettings:
        return self.settings.find_queue(self.settings.queue)


def make_plan(seed: int, kinds: tuple[str, ...]) -> Plan:
    """The plan of a seed. One life in fifteen is calm."""
    chance = Random(f"plan {seed}")
    fifo = chance.random() < 0.4
    lease = chance.choice([3.0, 6.0, 9.0])
    queue = QueueSettings.model_validate(
        {
            "name": "turns",
            "sqs": "turns.fifo" if fifo else "turns",
            "visibility_seconds": float(int(lease * chance.choice([1.0, 1.5, 3.0]))),
            "timeout_seconds": chance.choice([8.0, 15.0]),
            "max_attempts": chance.choice([2, 3, 5]),
            "max_crashes": chance.choice([2, 3]),
        }
    )
    calm = chance.random() < 1 / 15
    faulty_seconds = chance.uniform(20.0, 60.0)
    return Plan(
        seed=seed,
        fifo=fifo,
        turns=chance.randint(150, 300),
        workers=chance.randint(2, 4),
        relays=chance.choice([1, 1, 2]),
        faulty_seconds=faulty_seconds,
        sessions=chance.choice([6, 15, 40, 80]),
        in_thread=chance.random() < 0.06,
        settings=_settings(chance, queue, lease, calm=calm),
        kinds=() if calm else tuple(chance.sample(kinds, chance.randint(1, min(9, len(kinds))))),
        strikes=0 if calm else int(faulty_seconds / chance.choice([3.0, 5.0, 10.0])),
    )


def _settings(chance: Random, queue: QueueSettings, lease: float, *, calm: bool) -> Settings:
    # Where no fault is meant to happen, a session run that ends at its bound, or a deferred session, would look like a
    # forgotten turn.
    session_run_turns, session_run_seconds = chance.choice([1, 3, 20]), chance.choice([3.0, 30.0])
    tenant_slots: TenantShare = chance.choice(["all", "fair", 2, 3])
    return Settings(
        database_url="postgresql://nowhere/none",
        redis_url="redis://nowhere:1/0",
        aws_region="nowhere",
        queues=(queue,),
        queue=queue.name,
        concurrency=chance.choice([2, 5, 10]),
        redis_prefix="",
        lease_seconds=lease,
        heartbeat_seconds=lease / 3,
        resend_seconds=chance.choice([4.0, 8.0, 12.0]),
        relay=chance.random() < 0.5,
        relay_tick_seconds=chance.choice([1.0, 2.0]),
        relay_stamp_seconds=chance.choice([2.0, 5.0]),
        takeover_resend_seconds=chance.choice([1.5, 3.0]),
        receive_wait_seconds=chance.choice([5, 20]),
        pollers=chance.choice([1, 1, 2]),
        tenant_slots="all" if calm else tenant_slots,
        session_run_turns=1000 if calm else session_run_turns,
        session_run_seconds=3600.0 if calm else session_run_seconds,
        grace_seconds=chance.choice([0.0, 2.0, 5.0]),
        cancel_grace_seconds=chance.choice([0.5, 2.0]),
        watchdog_seconds=lease * 3,
        retry_base_seconds=0.3,
        retry_cap_seconds=3.0,
        idempotency_days=1.0,
        log_level="info",
        log_format="json",
    )


_WEIGHTS = {
    "echo": 50,
    "sleep": 22,
    "long": 3,
    "flaky": 7,
    "snooze": 3,
    "fail": 2,
    "bug": 3,
    "reject": 2,
    "nul": 1,
    "unfit": 1,
    "die": 1,
    "deaf": 1,
    "block": 1,
}
"""How often a turn asks for what."""

_CALM = {"echo": 70, "sleep": 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    content: dict[str, Any]
    scheduled_seconds: float | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    on_busy: str | None = None


POLICIES = 0.15
"""Of the turns that ask for something if their session is busy."""


def make_wish(chance: Random, plan: Plan, now: float) -> Wish:
    weights = _WEIGHTS if plan.kinds else _CALM
    [what] = chance.choices(list(weights), list(weights.values()))
    lease = plan.settings.lease_seconds
    content: dict[str, Any] = {"do": what, "history": chance.random() < 0.3}
    timeout: float | None = None
    match what:
        case "sleep":
            content |= {"seconds": round(chance.uniform(0.02, 1.0), 3)}
        case "long":
            # Longer than a lease, and now and then than it may take.
            content |= {"do": "sleep", "seconds": round(min(10.0, chance.uniform(1.0, 2.5) * lease), 3)}
            timeout = chance.choice([None, 4.0])
        case "flaky":
            content |= {"times": chance.randint(1, 2), "after": chance.choice([None, 0.1, 1.5])}
        case "snooze":
            content |= {"until": now + chance.uniform(0.2, 4.0)}
        case "reject":
            content |= {"dead_letter": chance.random() < 0.5}
        case "die":
            content |= {"times": chance.choice([1, 1, 2, 1000])}
        case "deaf":
            content |= {"seconds": round(chance.uniform(3.0, 12.0), 3)}
            timeout = 4.0
        case "block":
            # Now and then for longer than the watchdog allows.
            content |= {"seconds": round(chance.choice([0.5, 0.5, 1.5, 1.5, 4.0]) * lease, 3)}
        case _:
            content |= {"say": f"{chance.getrandbits(32):08x}"}
    scheduled = chance.uniform(0.2, 8.0) if chance.random() < 0.05 else None
    picky = plan.kinds and scheduled is None and chance.random() < POLICIES
    return Wish(
        content=content,
        scheduled_seconds=scheduled,
        on_busy=chance.choice(["reject", "interrupt", "merge", "merge"]) if picky else None,
        max_attempts=chance.choice([1, 4]) if chance.random() < 0.05 else None,
        timeout_seconds=timeout,
    )
