"""The tables of an embedded database, made as in production: by their owner, with rights for the roles of the processes."""

from turnstile.backends.postgres.place import DEFAULT_SCHEMA, DatabasePlace
from turnstile.dev.stack.postgres import Postgres
from turnstile.dev.stack.roles import KINDS, OWNER
from turnstile.ops.migration_run import apply
from turnstile.ops.roles.grants import grant


def make_tables(postgres: Postgres, database: str, schema: str = DEFAULT_SCHEMA) -> None:
    """Makes the roles, brings the tables to the version of this program, and grants. May be repeated.

    Raises LocalStackError, CommandError or DatabaseUnavailableError.
    """
    postgres.make_roles(database)
    owner = DatabasePlace(postgres.url_of(OWNER, database), schema)
    apply(owner)
    grant(owner, KINDS)
