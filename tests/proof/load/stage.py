"""Where a load is made: the servers and the queue of a benchmark, the checker's audit, the product as in production."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import psycopg

from bench.contenders import OURS
from bench.stage import Room
from tests.proof.chaos import audit
from tests.proof.chaos.company import wait_until_ready
from tests.proof.chaos.handler_evidence import RUNS
from tests.proof.chaos.scaled_settings import TENANTS
from tests.proof.chaos.supervisor import Supervisor
from tests.proof.checker.evidence import Terms
from tests.proof.load.plan import Outcome, Plan
from turnstile.config.settings import Settings
from turnstile.ops.dev.stack.ports import LOOPBACK, choose_free

REDIS_PREFIX = "load:"

UNLOGGED = """
ALTER TABLE audit SET UNLOGGED;
ALTER TABLE audit_halts SET UNLOGGED;
ALTER TABLE audit_joins SET UNLOGGED;
"""
"""The write-ahead log is to be the product's, not the checker's. Nothing crashes here."""


@dataclass(frozen=True, slots=True)
class Remains:
    """Where `rest` looks, on a stage of the benchmarks."""

    room: Room
    sqs: Any

    @property
    def admin_url(self) -> str:
        return self.room.database_url

    @property
    def locks_url(self) -> str:
        return self.room.redis_url

    @property
    def redis_prefix(self) -> str:
        return REDIS_PREFIX

    def queue_url(self, *, dead: bool = False) -> str:
        return f"{self.room.queue_url}-dlq" if dead else self.room.queue_url


def environment_of(plan: Plan, room: Room, folder: Path) -> dict[str, str]:
    """As in production, but for what the run itself is made of."""
    return {
        **OURS.environment(room, plan.slots, 0.0),
        RUNS: str(folder / "runs.jsonl"),
        "TURNSTILE_HANDLER": "tests.proof.chaos.handler:act",
        "TURNSTILE_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in TENANTS.items()),
        "TURNSTILE_REDIS_PREFIX": REDIS_PREFIX,
        # In a process of its own, so that its CPU is seen apart.
        "TURNSTILE_RELAY": "false",
        "TURNSTILE_LOG_LEVEL": "info",
        "TURNSTILE_LOG_FORMAT": "json",
    }


def install_audit(room: Room) -> None:
    """Records every change for the checker, without the product's own code."""
    audit.install(room.database_url)
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute(UNLOGGED)


async def start_cast(plan: Plan, cast: Supervisor, environment: dict[str, str]) -> list[int]:
    ports = [choose_free() for _ in range(plan.apis if plan.over_http else 0)]
    for number, port in enumerate(ports, start=1):
        await cast.add(f"api-{number}", "api", ["api"], {**environment, "TURNSTILE_API_PORT": str(port)})
    for number in range(1, plan.workers + 1):
        await cast.add(f"worker-{number}", "worker", ["worker"], environment)
    await cast.add("relay", "relay", ["relay"], environment)
    await wait_until_ready([f"http://{LOOPBACK}:{port}" for port in ports])
    return ports


def sqs_client(environment: dict[str, str]) -> Any:
    with patch.dict("os.environ", environment):
        return boto3.client("sqs")


def write_terms(outcome: Outcome, environment: dict[str, str], folder: Path) -> None:
    """The terms, for the checker: those of production, where the run does not say otherwise."""
    with patch.dict("os.environ", environment):
        settings = Settings()
    queue = settings.find_queue(settings.queue)
    terms = Terms(
        name=f"load by {outcome.plan.name}",
        seed=outcome.plan.seed,
        lease_seconds=settings.lease_seconds,
        grace_seconds=settings.grace_seconds,
        resend_seconds=settings.resend_seconds,
        relay_tick_seconds=settings.relay_tick_seconds,
        retry_cap_seconds=settings.retry_cap_seconds,
        max_attempts=queue.max_attempts,
        max_crashes=queue.max_crashes,
        slots=outcome.plan.slots,
        bound_seconds=outcome.plan.bound_seconds,
        healed_at=outcome.ended_at,
        rested_at=outcome.rested_at,
        calm=True,
        compensates=True,
    )
    (folder / "run.json").write_text(json.dumps(asdict(terms), indent=2) + "\n")
