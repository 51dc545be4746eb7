"""How alembic connects: the place comes from the caller (`turnstile migrate`, the tests), never from a file. So does the function
that is called after each version, in its transaction."""

from alembic import context
from sqlalchemy import text

from turnstile.migrations.engine import VERSION_TABLE, make_engine, make_schema, wait_for_others
from turnstile.migrations.lock_timeouts import MIGRATION_LOCK, statements_before


def run() -> None:
    """Applies the missing versions, under an advisory lock: a deploy may start several migrations at once.

    All in one transaction. A version that builds an index concurrently (`lock_timeouts.build_index`) commits and starts another.
    """
    place = context.config.attributes["place"]
    with make_engine(place).connect() as connection:
        if context.is_offline_mode():
            # Not by the connection, whose dialect would print each per cent sign twice: in a RAISE that is another text.
            named = {"paramstyle": "named"}
            context.configure(dialect_name="postgresql", dialect_opts=named, version_table=VERSION_TABLE)
            # Printed, so that a migration that an operator runs by hand has the same bounds.
            path = f'SET search_path = "{place.schema}"'
            for statement in (f"SELECT pg_advisory_lock({MIGRATION_LOCK})", *statements_before(), path):
                context.execute(statement)
        else:
            after_each = context.config.attributes["on_version_apply"]
            context.configure(connection=connection, version_table=VERSION_TABLE, on_version_apply=after_each)
            wait_for_others(connection)
            for statement in statements_before():
                connection.execute(text(statement))
            connection.commit()
        with context.begin_transaction():
            for statement in make_schema(connection, place):
                context.execute(statement)
            context.run_migrations()


run()
