"""How migrations wait for locks without blocking claims and submits (ADR 0022).

Imports nothing of the product, so that versions may use it.
"""

from alembic import op

LOCK_TIMEOUT = "3s"
"""A statement that waits to change a table blocks every later read of it, so also claims and submits, which give up after five
seconds."""

INDEX_LOCK_TIMEOUT = "1min"
"""A concurrent build blocks nothing. But it waits for each transaction that started before it, and a deploy must end."""

MIGRATION_LOCK = "hashtext('turnstile.migrate')"


def statements_before() -> tuple[str, ...]:
    """The first statements of a migration's connection."""
    return (
        # While it runs a statement, Postgres does not notice that the client is gone, and would keep the locks until the end.
        "SET client_connection_check_interval = '2s'",
        f"SET lock_timeout = '{LOCK_TIMEOUT}'",
    )


def build_index(name: str, on: str) -> None:
    """Builds an index concurrently; `on` is the statement after ON. It must be the only step of its version.

    Earlier versions of the run are committed first. An interrupted build leaves an invalid index: this call drops it and builds
    it again.
    """
    with op.get_context().autocommit_block():
        op.execute(f"SET lock_timeout = '{INDEX_LOCK_TIMEOUT}'")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {on}")
        op.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
