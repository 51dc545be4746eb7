"""The metrics of what needs an operator: a log line and gauges, per minute and queue, from every relay (ADR 0024)."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict
from time import monotonic

from turnstile.backends.postgres.database import Database
from turnstile.queries.attention import Attention, read_attention
from turnstile.relay.reports.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.telemetry.metrics import (
    DEAD_LETTERS_EXPECTED,
    DLQ_UNTOUCHED,
    FAILED_TURNS,
    SESSIONS_HALTED,
    SESSIONS_HALTED_SECONDS,
)
from turnstile.telemetry.own_log import log

LATELY_SECONDS = 300.0
"""How long a failure or a halt counts as new. A line or two may get lost; a relay that is silent for as long has an alarm of its
own (`relay-silent`)."""

FIRST_SECONDS = 900.0
"""The same for a process's first report: while relays are replaced, none may have run."""

GAUGES = (FAILED_TURNS, SESSIONS_HALTED, SESSIONS_HALTED_SECONDS, DEAD_LETTERS_EXPECTED, DLQ_UNTOUCHED)


async def report_attention(
    database: Database, queues: Sequence[str], stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Reports until `stopping`. No failure ends it or affects the relay."""
    reported_at: float | None = None

    async def report() -> None:
        nonlocal reported_at
        asked_at = monotonic()
        # The line must cover the whole time since the last one, however long Postgres was away.
        lately = FIRST_SECONDS if reported_at is None else max(LATELY_SECONDS, asked_at - reported_at + EVERY_SECONDS)
        for one in await read_attention(database, queues, lately_seconds=lately):
            line = log.warning if one.needs_operator else log.info
            seconds = {
                "halted_seconds": round(one.halted_seconds, 1),
                "untouched_seconds": round(one.untouched_seconds, 1),
            }
            line("queue.attention", **{**asdict(one), **seconds})
            _measure(one)
        reported_at = asked_at

    await report_every_minute("attention", report, stopping, every_seconds=every_seconds, gauges=GAUGES)


def _measure(one: Attention) -> None:
    FAILED_TURNS.set(one.failed_lately, one.queue)
    SESSIONS_HALTED.set(one.halted, one.queue)
    SESSIONS_HALTED_SECONDS.set(one.halted_seconds, one.queue)
    DLQ_UNTOUCHED.set(one.untouched_seconds, one.queue)
    # NaN: too many to count. No alarm's comparison with it is true.
    DEAD_LETTERS_EXPECTED.set(math.nan if one.letters is None else one.letters, one.queue)
