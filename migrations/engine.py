"""How migrations connect: as everybody else does, so that there is one meaning of DATABASE_URL. SQLAlchemy would read it in its
own way, knows no libpq words and takes several hosts only in another form, and takes a server that is read-only by now."""

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from turns.database import conninfo


def make_engine(url: str) -> Engine:
    """For any form of the URL that the settings take. No statement is too slow: an index on a large table takes its time."""
    given = conninfo(url, "turnstile-migrate", statement_timeout_seconds=0)
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(given), poolclass=NullPool)
