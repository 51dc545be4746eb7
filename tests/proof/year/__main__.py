"""`make year`: a year at a scale of a million turns a day, with the product's retention, and what the tables weigh meanwhile.

make year                                   a thousandth of the load, which takes some minutes
make year ARGS='--turns-a-day 10000'        a hundredth
make year ARGS='--days 30 --retention 10'   a shorter year

A day is as many turns as were asked for, written as submit, claim and settle write them; then the retention runs, and a vacuum
every second day, as autovacuum would at a full load. No time stamp is shifted: the age of a turn is the real time since its day.

Exit code 1: the tables went on growing after the retention began, or a claim reads more pages.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tests.proof.year.year import Plan, Reading, live_through
from turnstile.dev.stack.stack import temporary

MOST_GROWTH = 1.3
"""Size at the end, at most, of the size at the first measurement behind the retention."""
MORE_PAGES = 3
"""Pages that a claim may read more at the end, for one more level of its indexes."""


def main(arguments: Sequence[str]) -> int:
    asked = _parse(arguments)
    plan = Plan(asked.days, asked.turns_a_day, asked.retention, asked.every)
    with temporary(durable=False) as stack:
        readings = asyncio.run(live_through(stack, plan, _say))
    print(as_text(readings), flush=True)
    problems = find_problems(plan, readings)
    for problem in problems:
        _say(problem)
    return 1 if problems else 0


def find_problems(plan: Plan, readings: Sequence[Reading]) -> list[str]:
    """What a steady state must not show."""
    steady = [one for one in readings if one.day > plan.retention_days]
    if len(steady) < 2:
        return [f"the year is too short: it needs two measurements behind day {plan.retention_days}"]
    first, last = steady[0], steady[-1]
    problems = []
    if last.megabytes > MOST_GROWTH * first.megabytes:
        problems.append(f"the tables grew from {first.megabytes:.0f} to {last.megabytes:.0f} MB behind the retention")
    if last.turns > MOST_GROWTH * first.turns:
        problems.append(f"the turns grew from {first.turns:,} to {last.turns:,} behind the retention")
    if last.claim_pages > first.claim_pages + MORE_PAGES:
        problems.append(f"a claim reads {last.claim_pages} pages, after {first.claim_pages}")
    return problems


def as_text(readings: Sequence[Reading]) -> str:
    """A table in Markdown."""
    names = (
        "day", "turns", "sessions", "tables MB", "indexes MB", "dead rows", "claim ms", "pages a claim",
        "delete ms: median, most", "turns/s",
    )  # fmt: skip
    head = f"| {' | '.join(names)} |"
    rows = [
        f"| {one.day} | {one.turns:,} | {one.sessions:,} | {one.table_megabytes:.1f} | {one.index_megabytes:.1f} "
        f"| {one.dead_rows:,} | {one.claim_milliseconds:.2f} | {one.claim_pages} "
        f"| {one.delete_milliseconds:.0f}, {one.longest_delete_milliseconds:.0f} | {one.deleted_a_second:,.0f} |"
        for one in readings
    ]
    return "\n".join([head, "|---" * len(names) + "|", *rows])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make year", description="a year of turns, and what it leaves behind")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--turns-a-day", type=int, default=1000)
    parser.add_argument("--retention", type=int, default=90, help="days")
    parser.add_argument("--every", type=int, default=30, help="days between two measurements")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
