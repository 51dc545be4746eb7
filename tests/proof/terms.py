"""The terms of a run, for the checker, as the settings of its processes have them: `run.json`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.proof.checker.evidence import Terms
from turnstile.config.settings import Settings


def make_terms(settings: Settings, **run: Any) -> Terms:
    """`run` is what no setting says: the run's name, its seed, its bound, and its end."""
    queue = settings.find_queue(settings.queue)
    return Terms(
        lease_seconds=settings.lease_seconds,
        grace_seconds=settings.grace_seconds,
        resend_seconds=settings.resend_seconds,
        max_attempts=queue.max_attempts,
        max_crashes=queue.max_crashes,
        slots=settings.concurrency,
        tenant_slots=settings.tenant_slots if isinstance(settings.tenant_slots, int) else None,
        places=settings.limits[0].concurrency if settings.limits else None,
        fifo=queue.sqs.endswith(".fifo"),
        halts=queue.halts,
        **run,
    )


def write_terms(terms: Terms, folder: Path) -> None:
    (folder / "run.json").write_text(json.dumps(asdict(terms), indent=2) + "\n")
