"""The headers of rate limits, as lists of HTTP's structured fields."""

from turnstile.backends.window_count import Count, Window
from turnstile.producer.rates.rate_headers import rate_headers


def test_each_window_is_an_item_of_both_headers() -> None:
    counted = [
        (Window("burst", limit=100, seconds=60, sliding=True), Count(True, 50, 30)),
        (Window("daily", limit=1000, seconds=86_400, sliding=False), Count(False, 0, 3600)),
    ]

    assert rate_headers(counted) == [
        (b"ratelimit-policy", b'"burst";q=100;w=60, "daily";q=1000;w=86400'),
        (b"ratelimit", b'"burst";r=50;t=30, "daily";r=0;t=3600'),
    ]


def test_a_request_that_no_window_counted_has_none() -> None:
    assert rate_headers([]) == []
