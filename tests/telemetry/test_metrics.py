"""The declarations keep the conventions: names, units, labels with a bound."""

import pytest

from turnstile.telemetry import metrics
from turnstile.telemetry.instruments import REGISTRY, Counter, Instrument

DECLARED = [one for one in vars(metrics).values() if isinstance(one, Instrument)]

CLOSED = {
    "queue", "outcome", "status", "result", "kind", "state", "backend", "role", "fact", "level", "route", "method", "code",
}  # fmt: skip
"""Labels whose values are declared queues, or words of the code."""

each = pytest.mark.parametrize("one", DECLARED, ids=lambda one: one.name)


@each
def test_a_name_ends_with_its_unit_and_only_a_counters_with_total(one: Instrument) -> None:
    stem, total, _ = one.name.partition("_total")

    assert bool(total) == isinstance(one, Counter)
    assert one.name.startswith("turnstile_")
    assert (
        stem.endswith(f"_{one.unit}") if one.unit else not stem.endswith(("_seconds", "_bytes", "_ratio", "_dollars"))
    )


@each
def test_a_label_is_of_a_closed_set_or_has_a_bound(one: Instrument) -> None:
    assert {label for label in one.labels if label not in CLOSED} == set(one._limits)


@each
def test_a_metric_is_served_under_its_name(one: Instrument) -> None:
    assert one.name.removesuffix("_total") in {family.name for family in REGISTRY.collect()}
