"""How samples become verdicts, tables and plots."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.__main__ import main
from bench.drains import middle_rate
from bench.experiment import Column, Experiment, Sample, Samples, at_least, at_most, percentile
from bench.profiling import of_the_product, parse_stack, part, tell
from bench.rendering import BEGIN, END, render, tell_samples
from bench.rendering import tell as tell_run
from bench.results import Surroundings, write_samples, write_surroundings
from bench.svg import PANEL_HEIGHT, TOP, Panel, bars, distributions, panels

SURROUNDINGS = Surroundings(command="c", date="d", machine="m", python="p", revision="r")
SAMPLES = Samples(
    [
        Sample(contender="ours", figures={"rate": 100.0}, round=0),
        Sample(contender="peer", figures={"rate": 50.0}, round=0),
        Sample(contender="ours", figures={"rate": 30.0}, round=1),
        Sample(contender="peer", figures={"rate": 10.0}, round=1),
        Sample(contender="ours", figures={"rate": 80.0}, round=2),
        Sample(contender="peer", note="ended by itself", round=2),
        Sample(contender="absent", note="not run"),
    ]
)


def test_a_ratio_compares_what_was_measured_in_the_same_round() -> None:
    """The machine was slow in the second round, for both; and in the third there was no peer to compare with."""
    assert SAMPLES.median("rate", "ours") == 80.0
    assert SAMPLES.ratio("rate", ("ours", ""), ("peer", "")) == 2.5


def test_what_was_not_measured_has_no_verdict() -> None:
    assert SAMPLES.ratio("rate", ("ours", ""), ("absent", "")) is None
    assert at_least("x", None, 1).met is None
    assert at_least("x", 1.0, 1).met
    assert not at_least("x", 0.99, 1).met
    assert at_most("x", 1.0, 1).met
    assert not at_most("x", 1.01, 1).met


def test_the_table_has_the_range_behind_the_median_and_the_notes() -> None:
    experiment = Experiment(
        name="e", measures="m", columns=[Column("rate", "turns/s", 1)], run=lambda stage, scale: iter(())
    )

    table = tell_samples(experiment, SAMPLES)

    assert "| ours | 80.0 (30.0 to 100.0) |  |" in table
    assert "| peer | 30.0 (10.0 to 50.0) | ended by itself |" in table
    assert "| absent |  | not run |" in table


def test_a_run_is_written_between_the_markers_of_the_page(tmp_path: Path) -> None:
    from bench.experiments import ALL

    drain = ALL[0]
    figures = {"turns_per_second": 10.0, "worker_cpu_ms": 1.0}
    write_surroundings(tmp_path, SURROUNDINGS)
    write_samples(tmp_path, drain, [Sample(contender="ours", figures=figures)])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    for _ in range(2):
        render(tmp_path, page, tmp_path / "plots")

    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("### drain") == 1
    assert "![drain](plots/drain.svg)" in text
    assert (tmp_path / "plots" / "drain.svg").exists()


def test_where_experiments_have_had_more_or_fewer_rounds_it_is_said() -> None:
    from bench.experiments import ALL

    def rounds(count: int) -> Samples:
        return Samples([Sample(contender="ours", round=number) for number in range(count)])

    assert "`c`, one round." in tell_run(SURROUNDINGS, [(ALL[0], rounds(1))])
    assert "`c`, medians of 2 rounds." in tell_run(SURROUNDINGS, [(ALL[0], rounds(2)), (ALL[1], rounds(2))])
    assert "`c`, medians of 2 to 5 rounds." in tell_run(SURROUNDINGS, [(ALL[0], rounds(2)), (ALL[1], rounds(5))])


def test_a_run_can_have_a_page_of_its_own(tmp_path: Path) -> None:
    write_surroundings(tmp_path, SURROUNDINGS)
    page = tmp_path / "growth.md"
    page.write_text(f"{BEGIN}\n{END}\n")

    assert main(["--render", str(tmp_path), "--page", str(page)]) == 0

    assert "revision r" in page.read_text()


@pytest.mark.parametrize("there", [True, False], ids=["without markers", "not there"])
def test_a_page_that_cannot_be_written_is_one_line_and_no_plot(tmp_path: Path, there: bool) -> None:
    write_surroundings(tmp_path, SURROUNDINGS)
    page = tmp_path / "page.md"
    if there:
        page.write_text("nothing\n")

    with pytest.raises(SystemExit, match=r"^make bench: .*page\.md"):
        main(["--render", str(tmp_path), "--page", str(page)])

    assert not page.with_suffix("").exists()


@pytest.mark.parametrize(
    "text",
    [
        bars("A & B", "turns/s", {"ours": 3.0, "<peer>": 1.0, "nothing": 0.0}),
        bars("Empty", "ms", {}),
        distributions("Times", "ms", {"ours": [1.0, 2.0, 900.0], "same": [5.0, 5.0]}),
        distributions("Nothing", "ms", {"ours": []}),
    ],
)
def test_plots_are_well_formed(text: str) -> None:
    assert ElementTree.fromstring(text).tag.endswith("svg")  # noqa: S314 - our own text


def test_percentiles_and_middle_rates() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 1.0) == 2.0
    # Waves of ten, a second apart: eight waves in eight seconds.
    assert middle_rate([float(n // 10) for n in range(100)]) == 10.0
    assert middle_rate([]) == 0.0


def test_a_stack_belongs_to_whoever_the_standard_library_works_for() -> None:
    stack = parse_stack(
        "main (ops/main.py:1);BaseEventLoop.run_forever (asyncio/base_events.py:607);settle (turnstile/statements/settle.py:9);"
        "Cursor.execute (psycopg/cursor.py:3);select (selectors.py:4) 7"
    )

    assert stack is not None
    frames, count = stack
    assert count == 7
    assert part(frames) == ("Postgres",)
    assert of_the_product(frames) == {"settle (turnstile/statements/settle.py)"}
    assert "| 2.000 | 100% | `Postgres` |" in tell([stack], part, 2.0, "part")


def test_the_start_of_the_process_is_no_part_of_a_turn() -> None:
    assert parse_stack("main (ops/main.py:1);load (worker/lifecycle/handler_loading.py:2) 3") is None


def test_panels_share_their_time_and_shade_the_same_bands() -> None:
    shown = [Panel("rate", "a second", {"in": [(0.0, 1.0), (60.0, 3.0)]}), Panel("empty", "ms", {}, logarithmic=True)]

    drawn = panels("two", 60.0, shown, [(30.0, 36.0)])

    ElementTree.fromstring(drawn)  # noqa: S314 - it is our own
    assert drawn.count("<polyline") == 1
    bands = [line for line in drawn.splitlines() if 'fill="#f3ead8"' in line]
    assert len(bands) == 2
    assert len({line.split(" y=")[0] for line in bands}) == 1


@pytest.mark.parametrize("values", [[0.0], [0.0, 1e-9], [1e-5, 1e7], [5.0], [99.0, 100.0]])
@pytest.mark.parametrize("logarithmic", [True, False])
def test_whatever_is_measured_lies_within_its_panel(values: list[float], *, logarithmic: bool) -> None:
    points = [(float(place), value) for place, value in enumerate(values)]

    drawn = panels("one", 10.0, [Panel("p", "u", {"s": points}, logarithmic=logarithmic)])

    line = ElementTree.fromstring(drawn).find("{http://www.w3.org/2000/svg}polyline")  # noqa: S314 - it is our own
    assert line is not None
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert all(TOP <= height <= TOP + PANEL_HEIGHT for height in heights)
