"""How much of what a process may open is for its clients."""

import pytest

from turnstile.errors import SettingsError
from turnstile.producer.http.connection_bounds import UNLIMITED, find_bounds


@pytest.mark.parametrize(
    ("open_files", "connections"),
    [(256, 192), (1024, 768), (20_000, 10_000), (1_048_576, 10_000), (UNLIMITED, 10_000)],
)
def test_a_quarter_of_the_open_files_is_reserved(open_files: int, connections: int) -> None:
    assert find_bounds(open_files, None).connections == connections


@pytest.mark.parametrize("connections", [16, 192, 768, 10_000])
def test_streams_leave_room_for_submits_and_requests_for_refusals(
    connections: int,
) -> None:
    bounds = find_bounds(UNLIMITED, connections)

    assert 0 < bounds.watches < bounds.requests < bounds.connections == connections


def test_a_setting_within_the_limit_of_open_files_is_used() -> None:
    assert find_bounds(100_000, 50_000).connections == 50_000


def test_a_setting_above_it_is_refused_with_the_limit_that_it_needs() -> None:
    with pytest.raises(SettingsError, match=r"TURNSTILE_API_CONNECTIONS: 900 .* limit of 1200 open files.* has 1024"):
        find_bounds(1024, 900)

    assert find_bounds(1200, 900).connections == 900
