"""The headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10). Pure.

Both are lists of HTTP's structured fields. An item is the name of a policy, as a string:

    RateLimit-Policy: "submits";q=600;w=60          the limit, and the window in seconds
    RateLimit: "submits";r=599;t=1                  requests that are left, and seconds until there are more
"""

from collections.abc import Iterable

from turnstile.backends.window_count import Count, Window

Header = tuple[bytes, bytes]


def rate_headers(counted: Iterable[tuple[Window, Count]]) -> list[Header]:
    """Both headers for the windows that counted the request; none if no window did. A name has no quotes and no backslashes."""
    pairs = list(counted)
    if not pairs:
        return []
    policy = ", ".join(f'"{window.name}";q={window.limit};w={window.seconds}' for window, _ in pairs)
    left = ", ".join(f'"{window.name}";r={count.remaining};t={count.free_in_seconds}' for window, count in pairs)
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())]
