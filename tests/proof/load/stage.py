"""Where a load is made: the servers and the queue of a benchmark, the checker's audit, the product as in production."""

from pathlib import Path
from unittest.mock import patch

import boto3
import psycopg

from bench.contenders import OURS
from bench.stage import Room
from tests.proof.chaos import audit
from tests.proof.chaos.handler_evidence import RUNS
from tests.proof.chaos.quiescence import Remains
from tests.proof.chaos.scaled_settings import API_KEYS, HANDLER
from tests.proof.checker.evidence import Terms
from tests.proof.load.plan import Outcome, Plan
from tests.proof.terms import make_terms
from turnstile.config.settings import Settings

REDIS_PREFIX = "load:"

UNLOGGED = """
ALTER TABLE audit_turns SET UNLOGGED;
ALTER TABLE audit_halts SET UNLOGGED;
ALTER TABLE audit_joins SET UNLOGGED;
"""
"""The write-ahead log is to be the product's, not the checker's. Nothing crashes here."""


def variables_of(plan: Plan, room: Room, folder: Path) -> dict[str, str]:
    """As in production, but for what the run itself is made of."""
    return {
        **OURS.environment(room, plan.slots, 0.0),
        RUNS: str(folder / "runs.jsonl"),
        "TURNSTILE_HANDLER": HANDLER,
        "TURNSTILE_API_KEYS": API_KEYS,
        "TURNSTILE_REDIS_PREFIX": REDIS_PREFIX,
        # In a process of its own, so that its CPU is seen apart.
        "TURNSTILE_RELAY": "false",
        "TURNSTILE_LOG_LEVEL": "info",
        "TURNSTILE_LOG_FORMAT": "json",
    }


def install_audit(room: Room) -> None:
    audit.install(room.database_url)
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        connection.execute(UNLOGGED)


def remains_of(room: Room, variables: dict[str, str]) -> Remains:
    with patch.dict("os.environ", variables):
        sqs = boto3.client("sqs")
    return Remains(
        database_url=room.database_url,
        redis_url=room.redis_url,
        redis_prefix=REDIS_PREFIX,
        sqs=sqs,
        queue_urls=(room.queue_url,),
        dlq_urls=(f"{room.queue_url}-dlq",),
    )


def terms_of(outcome: Outcome, variables: dict[str, str]) -> Terms:
    """The terms, for the checker: those of production, where the run does not say otherwise."""
    with patch.dict("os.environ", variables):
        settings = Settings()
    return make_terms(
        settings,
        name=f"load by {outcome.plan.name}",
        seed=outcome.plan.seed,
        bound_seconds=outcome.plan.bound_seconds,
        healed_at=outcome.ended_at,
        rested_at=outcome.rested_at,
        calm=True,
        compensates=True,
    )
