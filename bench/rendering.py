"""From results to text: the tables of `docs/performance.md`, between its markers."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.experiment import Experiment, Samples, TargetResult
from bench.results import Surroundings, read_results, read_surroundings

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
VERDICTS = {True: "met", False: "**missed**", None: "open"}


def render(folder: Path, page: Path) -> None:
    """Writes a run's tables into the page."""
    write_between(page, BEGIN, END, as_text(read_surroundings(folder), read_results(folder)))


def write_between(page: Path, begin: str, end: str, said: str) -> None:
    """Puts `said` between two markers of a page, in place of what was there. Raises ValueError if the page lacks them."""
    text = page.read_text()
    between = re.compile(rf"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"{page} has no {begin} with an {end} below it")
    page.write_text(between.sub(lambda _: f"\n{said}\n\n", text))


def as_text(surroundings: Surroundings, found: Iterable[tuple[Experiment, Samples]]) -> str:
    found = list(found)
    packages = ", ".join(f"{name} {version}" for name, version in surroundings.packages.items())
    servers = ", ".join(f"{name} {version}" for name, version in surroundings.servers.items())
    head = [
        f"{surroundings.date}, revision {surroundings.revision}, `{surroundings.command}`, {_rounds_as_text(found)}.",
        f"{surroundings.machine}. Python {surroundings.python}, {servers}; {packages}.",
    ]
    findings = [one for experiment, samples in found for one in experiment.judge(samples)]
    blocks = ["\n".join(head), *([table_of_targets(findings)] if findings else [])]
    for experiment, samples in found:
        blocks += [f"### {experiment.name}", f"{_capital(experiment.measures)}.", table_of_samples(experiment, samples)]
    return "\n\n".join(blocks)


def _rounds_as_text(found: Iterable[tuple[Experiment, Samples]]) -> str:
    # Results of several runs may lie in one folder: where one experiment went on for longer, that is said.
    counts = {max((sample.round for sample in samples.all), default=0) + 1 for _, samples in found}
    if counts <= {1}:
        return "one round"
    few, many = min(counts), max(counts)
    return f"medians of {many} rounds" if few == many else f"medians of {few} to {many} rounds"


def table_of_targets(findings: Iterable[TargetResult]) -> str:
    rows = [f"| {one.what} | {one.found} | {one.target} | {VERDICTS[one.met]} |" for one in findings]
    return "\n".join(["| what | found | target | |", "|---|---|---|---|", *rows])


def table_of_samples(experiment: Experiment, samples: Samples) -> str:
    """The medians of one experiment. A cell has the range of the rounds behind it where it is the first one's."""
    titles = [column.title for column in experiment.columns]
    lines = [f"| | {' | '.join(titles)} | |", "|---|" + "---|" * (len(titles) + 1)]
    for case, contender in samples.rows():
        cells = []
        for column in experiment.columns:
            values = samples.values(column.figure, contender, case)
            cells.append(_cell(values, samples.median(column.figure, contender, case), column.digits))
        notes = "; ".join(samples.notes(contender, case))
        lines.append(f"| {' '.join(filter(None, (case, contender)))} | {' | '.join(cells)} | {notes} |")
    return "\n".join(lines)


def _cell(values: Mapping[int, float], median: float | None, digits: int) -> str:
    if median is None:
        return ""
    text = f"{median:,.{digits}f}"
    if len(values) < 2:
        return text
    return f"{text} ({min(values.values()):,.{digits}f} to {max(values.values()):,.{digits}f})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
