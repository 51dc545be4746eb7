"""After its grace period a worker ends within the time that the infrastructure leaves it: SIGKILL cuts nothing off."""

import inspect
import re
import socketserver
from pathlib import Path

from turnstile.backends.postgres.database import CLOSE_SECONDS
from turnstile.telemetry import otlp_metrics, tracing
from turnstile.worker.attempt.emitters import LAST_CALL_SECONDS
from turnstile.worker.lifecycle.shutdown import HAND_BACK_SECONDS, LAST_WORDS_SECONDS
from turnstile.worker.worker_process import HEARTBEAT_END_SECONDS, TASKS_END_SECONDS

ROOT = Path(__file__).parents[3]
SERVICE = ROOT / "infra" / "modules" / "service" / "variables.tf"


def test_all_that_follows_the_grace_fits_into_what_is_left_of_the_stop_timeout() -> None:
    """Each of these waits is as long as this only if what it waits for does not respond."""
    [left] = re.findall(r"stop_timeout >= var\.grace_seconds \+ (\d+)", SERVICE.read_text("utf-8"))
    scrape_port_ends = inspect.signature(socketserver.BaseServer.serve_forever).parameters["poll_interval"].default

    in_order = [
        HAND_BACK_SECONDS,
        LAST_WORDS_SECONDS,
        TASKS_END_SECONDS,
        HEARTBEAT_END_SECONDS,
        LAST_CALL_SECONDS,
        CLOSE_SECONDS,
        otlp_metrics.FLUSH_SECONDS,
        scrape_port_ends,
        tracing.FLUSH_SECONDS,
    ]

    assert sum(in_order) < int(left)
