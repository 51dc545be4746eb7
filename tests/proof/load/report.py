"""From a load's evidence to text: tables for the terminal and for docs/load.md."""

from collections.abc import Sequence
from pathlib import Path

from bench.experiment import percentile
from bench.rendering import write_between
from bench.results import read_surroundings
from tests.proof.load.loaded import MB, Loaded, Turn, cores, memory, read, series, spent

BEGIN, END = "<!-- load:begin -->", "<!-- load:end -->"
TITLES = {"queue": "Straight to the queue", "api": "Through the API"}
TIMES = ("answered", "waited", "ended")
SHARES = (0.5, 0.95, 0.99)


def render(folder: Path, page: Path) -> None:
    """Writes a run's tables into the page."""
    write_between(page, BEGIN, END, as_text(folder))


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
    tables = (_table_of_times(loaded), _table_of_parts(loaded), _table_of_servers(loaded))
    return "\n\n".join([f"### {TITLES[loaded.name]}", _outcome_as_text(loaded), *tables])


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
