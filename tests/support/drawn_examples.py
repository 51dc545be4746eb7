"""Examples of a strategy as a list, for a test that gives all of them to one running thing."""

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

Drawn = TypeVar("Drawn")


def draw(strategy: SearchStrategy[Drawn], many: int) -> list[Drawn]:
    """Up to `many` of them, the same ones in each run."""
    drawn: list[Drawn] = []

    @settings(
        max_examples=many,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: Drawn) -> None:
        drawn.append(one)

    collect()
    return drawn
