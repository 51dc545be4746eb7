"""An application with tables and an alembic history of its own, in the database that Turnstile uses too."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from psycopg.sql import SQL, Identifier

TABLES = ("sessions", "messages", "workers", "turns", "webhooks", "submissions", "redrives")
"""All of them are names of ours, too."""

_ENV = """
import psycopg
from alembic import context
from sqlalchemy import create_engine

url = context.config.attributes["url"]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url, options="-c search_path=public"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""

_VERSION = """
from alembic import op

revision = {revision!r}
down_revision = None


def upgrade():
    for table in {tables!r}:
        op.execute(f"CREATE TABLE {{table}} (id int PRIMARY KEY, note text)")
        op.execute(f"INSERT INTO {{table}} VALUES (1, '{{table}} of the application')")
    op.execute("CREATE SEQUENCE fence_seq START 5")
    op.execute("CREATE FUNCTION advance_sequences(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'")
"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The application's side of one database."""

    url: str
    folder: Path
    revision: str

    def migrate(self) -> None:
        """`alembic upgrade head` of the application."""
        scripts = self.folder / "alembic"
        (scripts / "versions").mkdir(parents=True, exist_ok=True)
        (scripts / "env.py").write_text(_ENV)
        (scripts / "versions/first.py").write_text(_VERSION.format(revision=self.revision, tables=TABLES))
        config = Config(attributes={"url": self.url})
        config.set_main_option("script_location", str(scripts))
        command.upgrade(config, "head")

    def look(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that it has in `public`."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            names = [
                name
                for (name,) in connection.execute(
                    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')"
                )
            ]
            return {
                name: connection.execute(SQL("SELECT * FROM public.{}").format(Identifier(name))).fetchall()
                for name in sorted(names)
            }
