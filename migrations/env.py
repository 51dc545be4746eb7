"""How alembic connects: the URL comes from whoever calls (`turnstile migrate`, the tests), never from a file."""

from alembic import context

from migrations.engine import make_engine, statements_before
from turns.schema import metadata


def run() -> None:
    """Applies what is missing in one transaction, under an advisory lock: several may be started at once (a deploy)."""
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise RuntimeError("no database URL; use `turnstile migrate`")
    with make_engine(url).connect() as connection:
        context.configure(
            connection=connection, target_metadata=metadata, compare_type=True, compare_server_default=False
        )
        with context.begin_transaction():
            # By the context and not by the connection, so that --sql prints it: who does it by hand needs it as well.
            for statement in statements_before():
                context.execute(statement)
            context.run_migrations()


run()
