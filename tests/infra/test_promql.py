"""The evaluator of the rules keeps to Prometheus's documentation."""

import pytest

from tests.infra.promql import Labels, Scrape, evaluate, first_alert

EVERY = 15.0


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def scraped(*moments: dict[str, float], **by: str) -> list[Scrape]:
    """One scrape every fifteen seconds, with these series under the same labels."""
    return [
        Scrape(number * EVERY, {(name, labels(**by)): value for name, value in one.items()})
        for number, one in enumerate(moments)
    ]


def test_a_vector_is_what_the_last_scrape_has() -> None:
    scrapes = scraped({"a": 1}, {"a": 2, "b": 3}, queue="q")

    assert evaluate("a", scrapes) == {labels(queue="q"): 2}
    assert evaluate('b{queue="other"}', scrapes) == {}
    assert evaluate('b{queue=~"q|r"}', scrapes) == {labels(queue="q"): 3}


def test_a_series_that_its_target_no_longer_has_is_gone() -> None:
    assert evaluate("a", scraped({"a": 1}, {})) == {}
    assert evaluate("absent(a)", scraped({"a": 1}, {})) == {labels(): 1.0}


def test_a_counter_rises_over_the_whole_range_and_survives_its_restart() -> None:
    steady = scraped(*({"c": 10.0 * number} for number in range(30)))
    restarted = scraped({"c": 100}, {"c": 110}, {"c": 5}, {"c": 10}, {"c": 15})

    assert evaluate("increase(c[5m])", steady) == {labels(): pytest.approx(200)}
    assert evaluate("rate(c[5m])", steady) == {labels(): pytest.approx(200 / 300)}
    assert evaluate("increase(c[1m])", restarted) == {labels(): pytest.approx(25)}


def test_a_counter_that_begins_with_its_first_event_has_not_risen() -> None:
    assert evaluate("increase(c[5m]) > 0", scraped({}, {"c": 1}, {"c": 1})) == {}


def test_sets_are_matched_by_the_labels_that_are_named() -> None:
    one = scraped({"a": 1, "b": 2}, queue="q")

    assert evaluate("a and on (queue) b", one) == {labels(queue="q"): 1}
    assert evaluate("a unless on (queue) b", one) == {}
    assert evaluate("a or b", one) == {labels(queue="q"): 1}
    assert evaluate("100 * a / b > 10", one) == {labels(queue="q"): 50}
    assert evaluate("b == 0", one) == {}
    assert evaluate("b == bool 0", one) == {labels(queue="q"): 0}


def test_groups_are_made_by_the_labels_that_are_named() -> None:
    two = [Scrape(0.0, {("a", labels(queue="q", host=host)): value for host, value in (("x", 1.0), ("y", 3.0))})]

    assert evaluate("sum by (queue) (a)", two) == {labels(queue="q"): 4}
    assert evaluate("max(a)", two) == {labels(): 3}


def test_a_quantile_lies_within_the_bucket_that_has_its_rank() -> None:
    buckets = {
        ("h_bucket", labels(le=bound)): count for bound, count in (("1.0", 90.0), ("2.0", 100.0), ("+Inf", 100.0))
    }

    assert evaluate("histogram_quantile(0.95, h_bucket)", [Scrape(0.0, buckets)]) == {labels(): 1.5}


def test_slices_of_an_hour_are_counted() -> None:
    scrapes = scraped(*({"c": 100.0 if number >= 120 else 0.0} for number in range(240)))

    assert evaluate("count_over_time((sum(increase(c[5m])) > 3)[1h:5m])", scrapes) == {labels(): 1}


def test_a_rule_fires_when_its_state_has_lasted() -> None:
    scrapes = scraped(*({"a": float(number >= 4)} for number in range(20)))

    assert first_alert({"expr": "a > 0"}, scrapes) == 60.0
    assert first_alert({"expr": "a > 0", "for": "1m"}, scrapes) == 120.0
    assert first_alert({"expr": "a > 0", "for": "10m"}, scrapes) is None


def test_a_state_that_is_interrupted_begins_anew() -> None:
    scrapes = scraped(*({"a": float(number % 4 != 0)} for number in range(40)))

    assert first_alert({"expr": "a > 0", "for": "1m"}, scrapes) is None
