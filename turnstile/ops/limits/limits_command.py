"""`turnstile limits`: shows the limits with their present use, and sets others in their place without a restart."""

from typing import Annotated

import typer

from turnstile.backends.redis.operator_client import RedisUnreachableError
from turnstile.config.limit_settings import MOST
from turnstile.config.settings import Settings
from turnstile.limits.rules import Amounts
from turnstile.ops.limits.limit_overview import LIMITS, LimitOverview, describe, read_uses
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Yes, confirm, make_typer
from turnstile.ops.terminal.output import print_json, print_table, print_text, say
from turnstile.statements.limit_overrides import clear_override, read_fleet_state, set_override

commands = make_typer(help="The limits that hold for all workers.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A declared limit.")]
Value = Annotated[
    str | None, typer.Option(help="Only for this tenant, queue or value of the metadata. Left out: for all of them.")
]


@commands.command("list")
def list_limits(as_json: AsJson = False) -> None:
    """List the declared limits, and the values of their keys that are in use, with what runs and waits now.

    running: places in use, of so many. waiting: sessions that wait for a place, or for the time of their tokens. A handler can
    pause a value for a time that its provider asks for.

    --json: limits, each with limit, key, value (null: each value that has no entry of its own), concurrency, rate, burst,
    running, waiting, paused_seconds (null: Redis is away, or there is no value), override (null, or limit_name, value,
    concurrency, rate, burst, set_by, reason, set_at).
    """
    settings = load_settings()
    found, away = operate(settings, _read)
    if as_json:
        print_json({"limits": found})
    elif found:
        print_table(LIMITS, found)
    else:
        print_text("no limits are declared")
    if away is not None:
        say(f"the use of the limits is not known: Redis does not answer: {away}")


@commands.command("set")
def set_limit(
    name: Name,
    value: Value = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=MOST, help="Turns that run at a time.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, max=MOST, help="Turns that begin in a second.")] = None,
    burst: Annotated[int | None, typer.Option(min=1, max=MOST, help="Tokens that are saved up.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why, for those who look at the limits.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Set a limit in place of the declared one. All workers keep it within a heartbeat, and it outlasts their restart.

    What is left out stays as declared. Another call for the same value replaces this one. Turns that run keep their places.

    --json: limit, value (null: all), changed, concurrency, rate, burst.
    """
    settings = load_settings()
    _check(settings, name)
    amounts = Amounts(concurrency=concurrency, rate=rate, burst=burst)
    if amounts == Amounts(concurrency=None, rate=None, burst=None):
        raise CommandError("nothing to set: give --concurrency, --rate or --burst", ExitCode.USAGE)
    confirm(f"Set {_words(amounts)} for limit {_named(name, value)}?", yes=yes)
    operate(settings, _set, name, value or "", amounts, reason)
    if as_json:
        print_json(_document(name, value, amounts, changed=True))
    else:
        print_text(f"limit {_named(name, value)} has {_words(amounts)} within {settings.heartbeat:g} s")


@commands.command("clear")
def clear_limit(name: Name, value: Value = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Return to the declared limit, within a heartbeat.

    --json: limit, value (null: all), changed, concurrency, rate, burst.
    """
    settings = load_settings()
    _check(settings, name)
    confirm(f"Return to the declared amounts of limit {_named(name, value)}?", yes=yes)
    changed = operate(settings, _clear, name, value or "")
    if as_json:
        print_json(_document(name, value, Amounts(concurrency=None, rate=None, burst=None), changed=changed))
    else:
        print_text(f"limit {_named(name, value)} is as declared")
    if not changed:
        say("nothing was changed: nothing was set in its place")


async def _read(operator: Operator) -> tuple[list[LimitOverview], str | None]:
    state = await read_fleet_state(operator.database)
    if not operator.settings.limits:
        return [], None
    try:
        return describe(operator.settings, state, await read_uses(operator.settings)), None
    except RedisUnreachableError as error:
        return describe(operator.settings, state, []), str(error)


async def _set(operator: Operator, limit: str, value: str, amounts: Amounts, reason: str | None) -> None:
    await set_override(operator.database, limit, value, amounts, set_by=operator.name, reason=reason)


async def _clear(operator: Operator, limit: str, value: str) -> bool:
    return await clear_override(operator.database, limit, value, cleared_by=operator.name)


def _check(settings: Settings, name: str) -> None:
    names = [limit.name for limit in settings.limits]
    if name not in names:
        known = f"the declared ones are {', '.join(names)}" if names else "none is declared: add [[limits]]"
        raise CommandError(f"there is no limit {name!r}; {known}", ExitCode.NOT_FOUND)


def _named(name: str, value: str | None) -> str:
    return f"{name} of {value}" if value else name


def _words(amounts: Amounts) -> str:
    given = {
        "concurrency": amounts.concurrency,
        "rate": None if amounts.rate is None else f"{amounts.rate:g}",
        "burst": amounts.burst,
    }
    return ", ".join(f"{word} {amount}" for word, amount in given.items() if amount is not None)


def _document(name: str, value: str | None, amounts: Amounts, *, changed: bool) -> dict[str, object]:
    return {
        "limit": name,
        "value": value,
        "changed": changed,
        "concurrency": amounts.concurrency,
        "rate": amounts.rate,
        "burst": amounts.burst,
    }
