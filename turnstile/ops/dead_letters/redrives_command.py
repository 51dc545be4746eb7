"""`turnstile redrives`: who put which FAILED turns back to work, or gave them up, and how that ended."""

from dataclasses import asdict

from turnstile.ops.dead_letters.filter_options import describe_filter
from turnstile.ops.dead_letters.redrive_log import RecordedRedrive, read_redrive_log
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit
from turnstile.ops.terminal.output import Columns, plural, print_json, print_table, shortened


def redrives(limit: Limit = 20, as_json: AsJson = False) -> None:
    """List redrives, retries, skips, drops and moves, newest first. A move: a dead letter came back to its queue.

    outcome: finished; stopped (by itself, for the reason); broken off (by the operator or an error); none while the command runs,
    and if it was killed.

    --json: redrives. Each: id, action, requested_by, queue, filter, matched, turns (put back, dropped or passed over),
    left_alone, sent and unsent (wake-ups), started_at, finished_at, outcome, reason.
    """
    found = operate(load_settings(), _read, limit)
    if as_json:
        print_json({"redrives": [{**asdict(one), "left_alone": one.left_alone} for one in found]})
        return
    columns: Columns = {
        "id": "id",
        "started": "started_at",
        "action": "action",
        "by": "requested_by",
        "filter": lambda one: shortened(_filter(one), 80),
        "done": lambda one: f"{one.turns} of {one.matched}",
        "outcome": _outcome,
    }
    print_table(columns, found)


def _outcome(one: RecordedRedrive) -> str:
    outcome = (one.outcome or "runs, or was killed").replace("_", " ")
    unsent = f"{plural(one.unsent, 'wake-up')} left to a relay" if one.unsent else None
    return ": ".join(filter(None, (outcome, shortened(one.reason, 120), unsent)))


def _filter(one: RecordedRedrive) -> str:
    wanted = one.filter.get(one.action, one.filter)
    return describe_filter(wanted) or "all" if isinstance(wanted, dict) else f"turn {wanted}"


async def _read(operator: Operator, limit: int) -> list[RecordedRedrive]:
    return await read_redrive_log(operator.database, limit)
