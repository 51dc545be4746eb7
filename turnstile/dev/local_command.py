"""`turnstile local`: the embedded stack with queues and tables, ready for a worker and an API."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from turnstile.dev.home import DEFAULT_HOME, SHORT_POLL, Home, home_option, program_name
from turnstile.dev.stack import stack as local
from turnstile.dev.stack.stack import LocalStack
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.options import AsJson, make_typer
from turnstile.ops.terminal.output import Columns, print_json, print_table, print_text, say

commands = make_typer(help="The embedded stack: PostgreSQL, Redis and SQS on loopback.", no_args_is_help=True)


@commands.command()
def up(home: Home = DEFAULT_HOME) -> None:
    """Start the stack or reuse it; create the declared queues; apply the migrations."""
    # The other commands do not need it, and its imports take half a second.
    from turnstile.dev.start_stack import bring_up

    named, program = home_option(home), program_name()
    bring_up(home)
    say(f"The stack at {home.resolve()} is up. Next, in this shell:")
    say(f'  eval "$({program} local env{named})"')
    say(f"  {program} worker --handler turnstile.examples.eliza:respond &")
    say(f"  {program} api &")
    say(f"  {program} submit chat-1 'Good morning' --wait 60")


@commands.command()
def down(
    home: Home = DEFAULT_HOME,
    purge: Annotated[bool, typer.Option("--purge", help="Remove its data too.")] = False,
) -> None:
    """Stop the stack; its data stays unless --purge."""
    if local.down(home, purge=purge):
        say("the stack is down" + (" and its data is gone" if purge else ""))
    else:
        say(f"nothing was running at {home}")


@commands.command()
def env(home: Home = DEFAULT_HOME) -> None:
    """Print `export` lines for another shell: eval "$(turnstile local env)"."""
    stack = _find(home)
    for name, value in (stack.environment() | SHORT_POLL).items():
        print_text(f"export {name}={shlex.quote(value)}")
    if not stack.is_running():
        again = f"{program_name()} local up{home_option(home)}"
        say(f"note: the stack is not running; `{again}` starts it at these addresses")


@commands.command()
def status(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Show how the stack is; exit code 1 unless all of it answers.

    --json: home, running, services (name, running, address, pid, version).
    """
    stack = _find(home)
    services = stack.status()
    running = all(service.running for service in services.values())
    if as_json:
        print_json({"home": stack.home, "running": running, "services": [asdict(one) for one in services.values()]})
    else:
        columns: Columns = {
            "service": "name",
            "state": lambda one: "up" if one.running else "hangs" if one.pid else "down",
            "address": "address",
            "pid": "pid",
            "version": "version",
        }
        print_table(columns, services.values())
    if not running:
        raise typer.Exit(ExitCode.FAILED)


def _find(home: Path) -> LocalStack:
    stack = local.find(home)
    if stack is None:
        line = f"there is no stack at {home}: `{program_name()} local up{home_option(home)}` makes one"
        raise CommandError(line, ExitCode.NOT_FOUND)
    return stack
