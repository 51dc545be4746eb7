"""`turnstile grant`: gives the roles of the database what each kind of process needs, and no more."""

from typing import Annotated, Any

import typer

from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.roles import grants
from turnstile.ops.roles.kinds import Kind
from turnstile.ops.terminal.operator_access import database_away, load_settings, operator_name
from turnstile.ops.terminal.output import print_text, say
from turnstile.process.database_role import connecting_as

_Roles = list[str] | None


def _option(kind: Kind, what: str) -> Any:
    return typer.Option(f"--{kind}", metavar="ROLE", help=f"A role {what}. May be given again for another one.")


def grant(
    api: Annotated[_Roles, _option(Kind.API, "that `turnstile api` connects as")] = None,
    worker: Annotated[_Roles, _option(Kind.WORKER, "of workers")] = None,
    relay: Annotated[_Roles, _option(Kind.RELAY, "of relays, and of workers that run one (without --no-relay)")] = None,
    operator: Annotated[_Roles, _option(Kind.OPERATOR, "of people and jobs that run the other commands")] = None,
    submitter: Annotated[
        _Roles, _option(Kind.SUBMITTER, "of an application that submits in its own transactions")
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements without running them.")] = False,
) -> None:
    """Give roles of the database the rights of a kind of process, and take all others in the schema from them.

    DATABASE_URL is of the role that owns the tables. The roles exist already. A role that is named for several kinds gets the
    rights of all of them. Without a role, those of earlier calls get theirs again; `turnstile migrate` does that, too.
    """
    settings = connecting_as(load_settings(), "owner")
    given = {Kind.API: api, Kind.WORKER: worker, Kind.RELAY: relay, Kind.OPERATOR: operator, Kind.SUBMITTER: submitter}
    named = _kinds_of_each(given)
    try:
        if sql:
            print_text(grants.print_statements(settings.database, named))
            return
        roles, advice = grants.grant(settings.database, named, by=operator_name(settings))
    except DatabaseUnavailableError as error:
        raise database_away(settings, error) from error
    say(describe(roles))
    for line in advice:
        say(f"note: {line}")


def describe(roles: grants.Roles) -> str:
    """Which role has which rights, in one line."""
    return f"granted: {grants.describe(roles)}" if roles else "no role was named, now or before: nothing was granted"


def _kinds_of_each(given: dict[Kind, _Roles]) -> dict[str, frozenset[Kind]]:
    kinds: dict[str, frozenset[Kind]] = {}
    for kind, roles in given.items():
        for role in roles or ():
            kinds[role] = kinds.get(role, frozenset()) | {kind}
    return kinds
