"""Clocks that differ are a finding; a slow answer of the database is none."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.database_clock import with_other_clock
from turnstile.config.settings import Settings
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.terminal.clocks import find_difference

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(("seconds", "words"), [(-300, "5m behind"), (300, "5m ahead of")])
async def test_a_database_whose_clock_differs_is_found(settings: Settings, seconds: float, words: str) -> None:
    other = settings.model_copy(update={"database_url": with_other_clock(settings, seconds)})

    [found] = await look(other, dlq=False)

    assert (found.code, found.subject) == ("clocks-differ", "postgres")
    assert f"is {words} this machine's" in found.detail


@pytest.mark.parametrize(
    ("database", "after", "ahead"),
    [(0, 0, None), (5, 0, None), (6, 0, 6), (-6, 0, -6), (30, 30, None), (15, 30, None), (36, 30, 6), (-6, 30, -6)],
)
def test_the_time_that_the_call_takes_does_not_count_as_a_difference(
    database: float, after: float, ahead: float | None
) -> None:
    found = find_difference(NOW + timedelta(seconds=database), NOW, NOW + timedelta(seconds=after))

    assert found == (None if ahead is None else timedelta(seconds=ahead))
