"""A database whose clock differs from this machine's, as far as one session's statements can see."""

from urllib.parse import quote

import psycopg

from turnstile.config.settings import Settings


def with_other_clock(settings: Settings, seconds: float) -> str:
    """The database's URL for sessions that see its clock ahead by `seconds`; below zero: behind."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS other_clock")
        for name in ("clock_timestamp", "now"):
            body = f"SELECT pg_catalog.{name}() + make_interval(secs => {seconds})"
            connection.execute(
                f"CREATE OR REPLACE FUNCTION other_clock.{name}() RETURNS timestamptz LANGUAGE sql AS '{body}'"  # type: ignore[call-overload]
            )
    # `pg_catalog` comes first unless it is named.
    options = quote("-c search_path=other_clock,public,pg_catalog")
    return f"{settings.database_url}{'&' if '?' in settings.database_url else '?'}options={options}"
