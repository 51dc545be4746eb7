"""How alembic connects: the URL comes from whoever calls (`turnstile migrate`, the tests), never from a file."""

from alembic import context

from migrations.engine import make_engine
from turns.schema import metadata


def run() -> None:
    """Applies the migrations in one transaction, under an advisory lock: several may be started at once (a deploy)."""
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise RuntimeError("no database URL; use `turnstile migrate`")
    with make_engine(url).connect() as connection:
        context.configure(
            connection=connection, target_metadata=metadata, compare_type=True, compare_server_default=False
        )
        with context.begin_transaction():
            # A session of ours gives up after a few seconds, but another migration may take longer than that.
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('turnstile.migrate'))")
            context.run_migrations()


run()
