"""From a load's evidence to text: tables for the terminal and for docs/load.md."""

import math
from collections.abc import Sequence
from pathlib import Path

from bench.experiment import percentile
from bench.rendering import write_between
from bench.results import read_surroundings
from tests.proof.load.abuse import FLOODER, FORMS, MOST_DELAY_SECONDS, QUIET
from tests.proof.load.loaded import MB, Loaded, Turn, cores, memory, read, series, spent

TITLES = {
    "queue": "Straight to the queue",
    "api": "Through the API",
    "flood": "One tenant sends 95 % of the load",
    "crowd": "A crowd calls, and ten times the load for a while",
}
TIMES = ("answered", "waited", "ended")
SHARES = (0.5, 0.95, 0.99)


def render(folder: Path, page: Path) -> None:
    """Writes a run's tables into the page: both ways in at one place, each form of abuse at its own."""
    [first, *_] = _ways(folder)
    place = first if first in FORMS else "load"
    write_between(page, f"<!-- {place}:begin -->", f"<!-- {place}:end -->", as_text(folder))


def as_text(folder: Path) -> str:
    where = read_surroundings(folder)
    servers = ", ".join(f"{name} {version}" for name, version in where.servers.items())
    head = (
        f"{where.date}, revision {where.revision}, `{where.command}`.\n"
        f"{where.machine}. Python {where.python}, {servers}."
    )
    return "\n\n".join([head, *(way_as_text(read(folder / name)) for name in _ways(folder))])


def way_as_text(loaded: Loaded) -> str:
    """One way in: what was asked of it, how long turns took, what everything cost."""
    tables = [_table_of_times(loaded), _table_of_parts(loaded), _table_of_servers(loaded)]
    if loaded.crowd:
        tables.append(_table_of_crowd(loaded))
    verdict = [flood_as_text(loaded)] if loaded.alone else []
    return "\n\n".join([f"### {TITLES[loaded.name]}", _outcome_as_text(loaded), *verdict, *tables])


def delay_seconds(loaded: Loaded) -> float:
    """By how much the flood has delayed the p95 of the quiet tenant's turns. Infinite if one of them has not ended."""
    flooded = [turn for turn in loaded.turns if turn.tenant == QUIET]
    before, after = (
        [math.inf if turn.ended is None else turn.ended for turn in turns] or [math.inf]
        for turns in (loaded.alone, flooded)
    )
    return (percentile(after, 0.95) - percentile(before, 0.95)) / 1000


def flood_as_text(loaded: Loaded) -> str:
    return (
        f"The p95 of the other tenant's turns, from when they were due to their end, was {delay_seconds(loaded):.2f} s later "
        f"in the flood than alone; {MOST_DELAY_SECONDS:g} s is the most."
    )


def _ways(folder: Path) -> list[str]:
    return [name for name in TITLES if (folder / name / "outcome.json").exists()]


def _outcome_as_text(loaded: Loaded) -> str:
    outcome, plan = loaded.outcome, loaded.outcome.plan
    accepted = sum(turn.answered is not None for turn in loaded.turns)
    lag = percentile([turn.lag for turn in loaded.turns], 0.99) if loaded.turns else 0.0
    workers = sorted({sample["workers"] for sample in loaded.samples})
    rest = "not at rest within the bound"
    if outcome.rested_at is not None:
        rest = f"at rest {outcome.rested_at - outcome.ended_at:.1f} s after the last was due"
    return (
        f"{outcome.capacity:.0f} turns/s can be done; {plan.share:.0%} of that was asked for over {loaded.seconds:.0f} s, "
        f"and {plan.burst_factor:g} times as much for {plan.burst_seconds:.3g} s of every {plan.burst_every:.3g}. "
        f"{len(loaded.turns):,} turns were due, {accepted:,} accepted, {loaded.ended:,} ended; {rest}. "
        f"Handlers took {1000 * plan.handler_seconds:.0f} ms on average. {workers[0]} to {workers[-1]} workers of "
        f"{plan.slots} slots. The harness was {lag:.0f} ms late at p99, which is in the times."
    )


def _table_of_times(loaded: Loaded) -> str:
    third = loaded.seconds / 3
    even = [turn for turn in loaded.turns if not turn.burst]
    groups: dict[str, Sequence[Turn]] = {
        "all": loaded.turns,
        **_groups_of_tenants(loaded),
        "due in bursts": [turn for turn in loaded.turns if turn.burst],
        "outside of them, first third": [turn for turn in even if turn.due < third],
        "outside of them, last third": [turn for turn in even if turn.due >= 2 * third],
    }
    titles = [f"{what} p50 | p95 | p99" for what in TIMES]
    lines = [f"| ms | turns | {' | '.join(titles)} | max |", "|---|" + "---|" * (2 + len(TIMES) * len(SHARES))]
    for name, turns in groups.items():
        cells, values = [f"{len(turns):,}"], list[float]()
        for what in TIMES:
            values = [value for turn in turns if (value := getattr(turn, what)) is not None]
            cells += [f"{percentile(values, share):,.0f}" if values else "" for share in SHARES]
        lines.append(f"| {name} | {' | '.join(cells)} | {max(values, default=0):,.0f} |")
    return "\n".join(lines)


def _groups_of_tenants(loaded: Loaded) -> dict[str, Sequence[Turn]]:
    if not loaded.alone:
        return {}
    of = {tenant: [turn for turn in loaded.turns if turn.tenant == tenant] for tenant in (FLOODER, QUIET)}
    return {"the flooder's": of[FLOODER], "the other's, in the flood": of[QUIET], "the other's, alone": loaded.alone}


def _table_of_crowd(loaded: Loaded) -> str:
    lines = ["| the crowd: client, and status of its answer | answers |", "|---|---|"]
    return "\n".join([*lines, *(f"| {answer} | {count:,} |" for answer, count in sorted(loaded.crowd.items()))])


def _table_of_parts(loaded: Loaded) -> str:
    seconds = loaded.samples[-1]["at"] - loaded.samples[0]["at"]
    turns, sizes_of = max(1, loaded.ended), memory(loaded)
    lines = ["| part | CPU ms/turn | cores | at most | MB at first | at last | at most |", "|---|" + "---|" * 6]
    for name, points in cores(loaded).items():
        cpu, most = spent(loaded, name), max((value for _, value in points), default=0.0)
        cells = [f"{1000 * cpu / turns:.3f}", f"{cpu / seconds:.2f}", f"{most:.2f}"]
        megabytes = [value for _, value in sizes_of.get(name, ())]
        sizes = (megabytes[0], megabytes[-1], max(megabytes)) if megabytes else ()
        cells += [f"{size:,.0f}" for size in sizes] or [""] * 3
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _table_of_servers(loaded: Loaded) -> str:
    turns = max(1, loaded.ended)
    rows = [
        ("connections to Postgres", "connections", 1.0, 0),
        ("connections to Redis", "redis_connections", 1.0, 0),
        ("Redis, MB", "redis_bytes", MB, 1),
        ("write-ahead log, MB", "wal", MB, 0),
        ("tables, MB", "tables", MB, 1),
        ("indexes, MB", "indexes", MB, 1),
        ("dead rows", "dead", 1.0, 0),
        ("turns that wait", "due", 1.0, 0),
        ("how long the oldest has waited, s", "oldest_seconds", 1.0, 1),
    ]
    lines = ["| | at first | at last | at most | more a turn, bytes |", "|---|---|---|---|---|"]
    for title, name, unit, digits in rows:
        values = [value for _, value in series(loaded, name, unit)]
        cells = [f"{value:,.{digits}f}" for value in (values[0], values[-1], max(values))]
        more = f"{MB * (values[-1] - values[0]) / turns:,.0f}" if unit == MB else ""
        lines.append(f"| {title} | {' | '.join(cells)} | {more} |")
    return "\n".join(lines)
