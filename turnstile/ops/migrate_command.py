"""`turnstile migrate`: migrates the tables to the version of this program."""

from typing import Annotated

import typer

from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.migration_run import apply, warn_of_shared_schema
from turnstile.ops.roles.grant_command import describe
from turnstile.ops.roles.grants import grant_again
from turnstile.ops.terminal.operator_access import database_away, load_settings, operator_name
from turnstile.ops.terminal.options import DAY_SECONDS, Yes, confirm
from turnstile.ops.terminal.output import say
from turnstile.process.database_role import connecting_as


def migrate(
    revision: Annotated[str | None, typer.Option(help="Up (or down) to this revision.  [default: head]")] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL of the missing migrations without running it.")
    ] = False,
    down: Annotated[
        bool, typer.Option("--down", help="Go back to --revision. Drops everything that was added since.")
    ] = False,
    wait: Annotated[float, typer.Option(min=0, max=DAY_SECONDS, help="Seconds to wait for the database.")] = 30.0,
    yes: Yes = False,
) -> None:
    """Bring the database's tables to the version of this program."""
    if down and revision is None:
        raise typer.BadParameter("--down requires --revision; `base` drops everything")
    settings = connecting_as(load_settings(), "owner")
    if down and not sql:
        confirm(f"Go down to {revision} and drop what was added since?", yes=yes)

    def say_why(error: DatabaseUnavailableError) -> None:
        # A wrong password looks like a server that is not ready yet.
        say(
            f"the database does not answer: {database_away(settings, error)}; waiting for it, {wait:g} s at most (--wait)"
        )

    try:
        before, after = apply(
            settings.database,
            revision or "head",
            down=down,
            sql=sql,
            by=operator_name(settings),
            wait_seconds=wait,
            on_wait=say_why,
        )
        # The new tables need grants, too.
        roles = {} if sql or down else grant_again(settings.database)
    except DatabaseUnavailableError as error:
        raise database_away(settings, error) from error
    if not sql:
        say(f"the tables are at {after}" if before == after else f"the tables went from {before} to {after}")
        if roles:
            say(describe(roles))
        if not down and (advice := warn_of_shared_schema(settings.database)) is not None:
            say(f"note: {advice}")
