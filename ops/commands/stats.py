"""`turnstile stats`: how many turns have ended lately and how, how long they waited and ran, and what is waiting now."""

from dataclasses import asdict
from typing import Annotated, Any

from turnstile.ops.queue_overview import BACKLOG
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, QueueName, TenantId, since_option
from turnstile.ops.terminal.output import print_fields, print_json, print_table, print_text, short_duration
from turnstile.queries.backlog import Backlog, read_backlog
from turnstile.queries.stats import Percentiles, Stats, read_stats

SINCE_SECONDS = 3600.0


def stats(
    since: Annotated[float, since_option(SINCE_SECONDS)] = SINCE_SECONDS,
    queue: QueueName = None,
    tenant: TenantId = None,
    as_json: AsJson = False,
) -> None:
    """Show how many turns have ended lately and how, how long they waited and ran, and the backlog.

    Waiting: from the submit, the schedule or the redrive to the first start. Running: from the first start to the end, with
    retries and their pauses. The backlog counts all tenants. What the archive has taken is not counted.

    --json: since_seconds, read_at, ended, ended_per_second, by_status, by_error_class (of FAILED turns), waiting_seconds and
    running_seconds (p50, p95, p99; null without such turns), attempts_per_turn, queue and tenant_id (what was asked for), backlog
    (of each queue: queue, due, ready, oldest_seconds, running, truncated: due and ready are at least so many).
    """
    settings = load_settings()
    names = settings.select_queues(queue)
    found, backlog = operate(settings, _read, names, since, queue, tenant)
    if as_json:
        print_json({**asdict(found), "queue": queue, "tenant_id": tenant, "backlog": backlog})
    else:
        _print(found, backlog)


async def _read(
    operator: Operator, names: list[str], since_seconds: float, queue: str | None, tenant: str | None
) -> tuple[Stats, list[Backlog]]:
    found = await read_stats(operator.database, since_seconds=since_seconds, queue=queue, tenant_id=tenant)
    return found, await read_backlog(operator.database, names)


def _print(found: Stats, backlog: list[Backlog]) -> None:
    started = found.attempts_per_turn
    fields: dict[str, Any] = {
        "ended": f"{found.ended} in {short_duration(found.since_seconds)}, {found.ended_per_second:.3g} a second",
        "status": _counts(found.by_status),
        "errors": _counts(found.by_error_class),
        "waiting": _describe(found.waiting_seconds),
        "running": _describe(found.running_seconds),
        "attempts": None if started is None else f"{started:.2f} a turn",
    }
    print_fields(fields)
    print_text()
    print_table({"queue": "queue", **BACKLOG}, backlog)


def _counts(counts: dict[str, int]) -> str | None:
    return ", ".join(f"{name} {many}" for name, many in counts.items()) or None


def _describe(percentiles: Percentiles | None) -> str | None:
    if percentiles is None:
        return None
    return ", ".join(f"{name} {short_duration(value)}" for name, value in asdict(percentiles).items())
