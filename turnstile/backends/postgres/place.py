"""Where Turnstile's tables are: a database, and the schema in it."""

from dataclasses import dataclass, field

DEFAULT_SCHEMA = "turnstile"


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Every connection takes the schema as its whole search path, so that no role and no database can set another one."""

    url: str = field(repr=False)
    """The URL, in any form that libpq takes, also with SQLAlchemy's name for the driver. It may have a password."""
    schema: str = DEFAULT_SCHEMA

    @property
    def libpq_url(self) -> str:
        return self.url.replace("postgresql+psycopg://", "postgresql://", 1)
