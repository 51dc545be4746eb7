"""What a turn takes of each limit: by its tenant, its queue or its metadata, and by its weight."""

from typing import Any

import pytest

from turnstile.config.limit_settings import MOST, LimitSettings
from turnstile.limits.rules import MOST_VALUE_CHARACTERS, Amounts, LimitRules, value_of, weight_of


def wants(metadata: dict[str, Any] | None = None, **fields: Any) -> list[tuple[str, str, int, int]]:
    limit = LimitSettings.model_validate({"name": "l", **fields})
    found = LimitRules([limit]).wants("tenant", "queue", metadata or {})
    return [(want.limit, want.value, want.places, want.tokens) for want in found]


def test_each_kind_of_key_has_its_value() -> None:
    assert wants(key="tenant", concurrency=2) == [("l", "tenant", 1, 0)]
    assert wants(key="queue", rate=2.0) == [("l", "queue", 0, 1)]
    assert wants({"model": "large"}, key="metadata.model", concurrency=2) == [("l", "large", 1, 0)]


@pytest.mark.parametrize("metadata", [{}, {"model": None}, {"model": ["a"]}, {"model": {}}])
def test_a_turn_without_the_field_is_not_limited(metadata: dict[str, Any]) -> None:
    assert wants(metadata, key="metadata.model", concurrency=1) == []


def test_numbers_and_booleans_are_values_and_a_long_text_has_a_digest() -> None:
    values = [value_of("metadata.m", "t", "q", {"m": given}) for given in (3, 1.5, True, False, "é" * 200)]

    assert values[:4] == ["3", "1.5", "true", "false"]
    assert values[4] is not None
    assert len(values[4]) < MOST_VALUE_CHARACTERS


@pytest.mark.parametrize(
    ("given", "weight"),
    [(3, 3), (3.9, 3), (0, 1), (-1, 1), (True, 1), ("3", 1), (None, 1), (float("nan"), 1), (1e300, MOST)],
)
def test_a_weight_in_the_metadata_is_a_number_from_1_on(given: Any, weight: int) -> None:
    assert weight_of("metadata.pages", {"pages": given}) == weight


def test_no_turn_takes_more_than_there_is() -> None:
    assert wants(key="tenant", concurrency=3, rate=0.5, burst=2, weight=10) == [("l", "tenant", 3, 2)]
    assert wants(key="tenant", rate=0.5, weight=10) == [("l", "tenant", 0, 1)]


def test_what_operators_have_set_for_the_value_counts_more_than_for_all() -> None:
    rules = LimitRules([LimitSettings(name="l", key="tenant", concurrency=1, rate=1.0)])
    rules.overrides = {
        ("l", ""): Amounts(concurrency=5, rate=None, burst=None),
        ("l", "big"): Amounts(concurrency=9, rate=None, burst=3),
    }

    [big], [other] = rules.wants("big", "q", {}), rules.wants("other", "q", {})

    assert big.amounts == Amounts(concurrency=9, rate=1.0, burst=3)
    assert other.amounts == Amounts(concurrency=5, rate=1.0, burst=None)
