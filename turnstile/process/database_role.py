"""The role of the database that a process connects as, where one environment is for all processes of a machine."""

from psycopg.conninfo import make_conninfo

from turnstile.config.database_roles import Process
from turnstile.config.settings import Settings


def connecting_as(settings: Settings, process: Process) -> Settings:
    """The settings of this kind of process: DATABASE_URL with its role of `database_roles`, if it has one."""
    login = settings.database_roles.get(process)
    if login is None:
        return settings
    role, _, password = login.partition(":")
    url = make_conninfo(settings.database.libpq_url, user=role, password=password)
    return settings.model_copy(update={"database_url": url})
