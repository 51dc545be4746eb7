"""Connections that are not the product's: of somebody's psql, or of a handler with tables of its own."""

from psycopg.conninfo import make_conninfo

from turnstile.backends.postgres.place import DEFAULT_SCHEMA


def outside(url: str) -> str:
    """The connection string of one that looks at the product's tables, and has no other option of the product's connections.

    The stack's superuser needs none: the schema has its name, and stands in its search path by that. Roles of a test's own do.
    """
    return make_conninfo(url, options=f"-c search_path={DEFAULT_SCHEMA}")
