"""`turnstile stats`: how many turns have ended lately and how, how long they waited and ran, and what is waiting now."""

from collections import Counter
from dataclasses import asdict
from operator import itemgetter
from typing import Annotated, Any

import typer

from turnstile.ops.queues.queue_overview import BACKLOG
from turnstile.ops.stats.progress_words import describe_not_ended
from turnstile.ops.stats.read_stats import GroupBy, Percentiles, Stats, StatsGroup, group_stats, read_stats
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, QueueName, TenantId, since_option
from turnstile.ops.terminal.output import (
    Columns,
    describe_counts,
    print_fields,
    print_json,
    print_table,
    print_text,
    say,
    short_duration,
)
from turnstile.queries.backlog import MOST, Backlog, read_backlog, read_backlog_by_tenant
from turnstile.queries.progress import Progress, read_progress

SINCE_SECONDS = 3600.0
SHOWN_GROUPS = 20
"""Lines of --by."""


def stats(
    since: Annotated[float, since_option(SINCE_SECONDS)] = SINCE_SECONDS,
    queue: QueueName = None,
    tenant: TenantId = None,
    by: Annotated[GroupBy | None, typer.Option("--by", help="Count by tenant, or by release of the handler.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how many turns have ended lately and how, how long they waited and ran, what has not ended, and the backlog.

    Waiting: from the submit, the schedule or the redrive to the first start. Running: from the first start to the end, with
    retries and their pauses. The backlog and what has not ended count all tenants. What the archive has taken is not counted.

    --by tenant: of each tenant the turns that are due, run and have ended. --by release: of each release of the handler
    (TURNSTILE_RELEASE) the turns whose last attempt ran in it. Of each queue, the 10,000 turns that are due longest are
    counted by tenant.

    --json: since_seconds, read_at, ended, ended_per_second, by_status, by_error_class (of FAILED turns), waiting_seconds and
    running_seconds (p50, p95, p99; null without such turns), attempts_per_turn, queue and tenant_id (what was asked for), backlog
    (of each queue: queue, due, ready, oldest_seconds, running, truncated: due and ready are at least so many), not_ended (of each
    queue: queue, due, ready, snoozed, retrying, joining, scheduled, running, slots, longest_running_seconds, truncated,
    still_since: at a standstill, since when the first turn has waited; read_at). With --by only since_seconds, by, and groups:
    name, ended, failed, top_error_class, waiting_seconds, running_seconds, and of tenants due and running.
    """
    settings = load_settings()
    names = settings.select_queues(queue)
    if by is not None:
        groups = operate(settings, _group, by, names, since, queue, tenant)
        if as_json:
            print_json({"since_seconds": since, "by": by, "groups": groups})
        else:
            _print_groups(by, groups)
        return
    found, backlog, not_ended = operate(settings, _read, names, since, queue, tenant)
    if as_json:
        print_json({**asdict(found), "queue": queue, "tenant_id": tenant, "backlog": backlog, "not_ended": not_ended})
    else:
        _print(found, backlog, not_ended)


async def _read(
    operator: Operator, names: list[str], since_seconds: float, queue: str | None, tenant: str | None
) -> tuple[Stats, list[Backlog], list[Progress]]:
    database = operator.database
    found = await read_stats(database, since_seconds=since_seconds, queue=queue, tenant_id=tenant)
    return found, await read_backlog(database, names), await read_progress(database, names)


async def _group(
    operator: Operator, by: GroupBy, names: list[str], since_seconds: float, queue: str | None, tenant: str | None
) -> list[dict[str, Any]]:
    ended = await group_stats(operator.database, by, since_seconds=since_seconds, queue=queue, tenant_id=tenant)
    groups = [asdict(one) for one in ended]
    if by is GroupBy.RELEASE:
        return groups
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for one in await read_backlog_by_tenant(operator.database, names):
        if tenant in {None, one.tenant_id}:
            waiting[one.tenant_id] += one.due
            running[one.tenant_id] += one.running
    known = {group["name"] for group in groups}
    groups += [asdict(StatsGroup(name=name, ended=0, failed=0)) for name in waiting if name not in known]
    for group in groups:
        group |= {"due": waiting[group["name"]], "running": running[group["name"]]}
    return sorted(groups, key=lambda group: group["due"] + group["running"] + group["ended"], reverse=True)


def _print_groups(by: GroupBy, groups: list[dict[str, Any]]) -> None:
    of_tenants = {name: itemgetter(name) for name in ("due", "running")} if by is GroupBy.TENANT else {}
    columns: Columns = {
        by.value: lambda group: group["name"] or "(none named)",
        **of_tenants,
        "ended": itemgetter("ended"),
        "failed": itemgetter("failed"),
        "mostly": itemgetter("top_error_class"),
        "waiting p95": lambda group: _p95(group["waiting_seconds"]),
        "running p95": lambda group: _p95(group["running_seconds"]),
    }
    print_table(columns, groups[:SHOWN_GROUPS])
    if (more := len(groups) - SHOWN_GROUPS) > 0:
        say(f"the {SHOWN_GROUPS} largest, and {more} more (--json shows all)")
    if sum(group.get("due", 0) for group in groups) >= MOST:
        say(f"due: of each queue the {MOST} oldest turns are counted; there may be more")


def _p95(percentiles: dict[str, float] | None) -> str:
    return short_duration(percentiles["p95"]) if percentiles else ""


def _print(found: Stats, backlog: list[Backlog], not_ended: list[Progress]) -> None:
    started = found.attempts_per_turn
    fields: dict[str, Any] = {
        "ended": f"{found.ended} in {short_duration(found.since_seconds)}, {found.ended_per_second:.3g} a second",
        "status": describe_counts(found.by_status) or None,
        "errors": describe_counts(found.by_error_class) or None,
        "waiting": _describe(found.waiting_seconds),
        "running": _describe(found.running_seconds),
        "not ended": describe_not_ended(not_ended) or None,
        "attempts": None if started is None else f"{started:.2f} a turn",
    }
    print_fields(fields)
    print_text()
    print_table({"queue": "queue", **BACKLOG}, backlog)


def _describe(percentiles: Percentiles | None) -> str | None:
    if percentiles is None:
        return None
    return ", ".join(f"{name} {short_duration(value)}" for name, value in asdict(percentiles).items())
