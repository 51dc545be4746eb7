"""How migrations wait: never so that claims and submits wait behind them (ADR 0043).

Imports nothing of the product, so that versions may use it.
"""

from alembic import op

LOCK_TIMEOUT = "3s"
"""A statement that waits to change a table has everybody behind it who wants to read it: claims and submits, who give up after
five."""

INDEX_LOCK_TIMEOUT = "1min"
"""A concurrent build keeps nobody waiting. It waits for each transaction that has begun before, and a deploy must end."""

MIGRATION_LOCK = "hashtext('turnstile.migrate')"


def statements_before() -> tuple[str, ...]:
    """What the session of a migration begins with."""
    return (
        # A server that computes or waits does not notice that its client is gone, and would keep the locks until it has done.
        "SET client_connection_check_interval = '2s'",
        f"SET lock_timeout = '{LOCK_TIMEOUT}'",
    )


def build_index(name: str, on: str) -> None:
    """Builds an index concurrently; `on` is the statement from ON to its end. To be the only step of its version.

    What the run has done before is committed first. A build that broke off leaves an index that is of no use: it is dropped and
    begun anew.
    """
    with op.get_context().autocommit_block():
        op.execute(f"SET lock_timeout = '{INDEX_LOCK_TIMEOUT}'")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {on}")
        op.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
