"""How samples become figures and verdicts: a run has nothing that would notice a wrong one."""

from bench.drains import middle_rate
from bench.experiment import Sample, Samples, at_least, at_most, percentile

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


def test_percentiles_and_middle_rates() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 1.0) == 2.0
    # Waves of ten, a second apart: eight waves in eight seconds.
    assert middle_rate([float(n // 10) for n in range(100)]) == 10.0
    assert middle_rate([]) == 0.0
