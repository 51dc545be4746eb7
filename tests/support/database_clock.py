"""A database whose clock differs from this machine's, as far as one session's statements can see."""

from urllib.parse import quote

import psycopg

from turnstile.config.settings import Settings

# The product's connections have the search path that they need, and `pg_catalog` comes first in it. So the server's own functions
# make room there. A session without the setting sees the true clock.
OTHER_CLOCK = """
ALTER FUNCTION pg_catalog.{name}() RENAME TO true_{name};
CREATE FUNCTION pg_catalog.{name}() RETURNS timestamptz LANGUAGE sql {kind} AS $$
    SELECT pg_catalog.true_{name}() + make_interval(secs => coalesce(current_setting('test.clock_ahead', true), '0')::float8)
$$;
"""


def with_other_clock(settings: Settings, seconds: float) -> str:
    """The database's URL for sessions that see its clock ahead by `seconds`; below zero: behind."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        for name, kind in (("clock_timestamp", "VOLATILE"), ("now", "STABLE")):
            connection.execute(OTHER_CLOCK.format(name=name, kind=kind))  # type: ignore[call-overload]
    options = quote(f"-c test.clock_ahead={seconds}")
    return f"{settings.database_url}{'&' if '?' in settings.database_url else '?'}options={options}"
