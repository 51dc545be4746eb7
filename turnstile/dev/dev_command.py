"""`turnstile dev`: everything that a handler needs, in one terminal, with the newest code, until Ctrl-C."""

import asyncio
import os
from pathlib import Path
from socket import socket
from typing import Annotated

import typer

from turnstile.config.config_file import load
from turnstile.config.settings import Settings
from turnstile.dev.home import DEFAULT_HOME, SHORT_POLL, Home, home_option, program_name
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.dev.start_stack import bring_up
from turnstile.errors import AddressUnusableError
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import load_settings
from turnstile.ops.terminal.output import say
from turnstile.producer.server import listen

HANDLER = "turnstile.examples.eliza:respond"

DEFAULTS = {
    "TURNSTILE_LOG_FORMAT": "console",
    # Without it each turn has a dozen lines, among which nobody finds an error.
    "TURNSTILE_LOG_LEVEL": "warning",
    # What a changed or a stopped worker has for its turns.
    "TURNSTILE_GRACE_SECONDS": "5",
    # A killed worker's turns go on after a few seconds instead of half a minute.
    "TURNSTILE_LEASE_SECONDS": "2",
    "TURNSTILE_TAKEOVER_RESEND_SECONDS": "1",
    # The wake-up of a turn that a worker hands back may be delivered to the poll of that worker, which has ended.
    "TURNSTILE_RESEND_SECONDS": "3",
    **SHORT_POLL,
}
"""Settings for development. Variables of the caller win over them."""

ONE_PROCESS_ONLY = {"TURNSTILE_HEALTH_PORT", "TURNSTILE_METRICS_PORT"}
"""During a change two workers run, and both would want these ports."""


def dev(
    home: Home = DEFAULT_HOME,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, envvar="TURNSTILE_API_PORT", help="Port of the API and its page. Default: 8080."
        ),
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(
            envvar="TURNSTILE_HANDLER",
            help="module:function, found from here. Default: that of turnstile.toml, or an example.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a handler while you write it: local stack, API, page and worker, with a new worker for each change, until Ctrl-C."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    named = home_option(home)
    # Before all else: a port that is taken is said at once.
    sockets = _listen(port or load_settings().api_port)
    bring_up(home)
    # After the stack, which says when the extra `local` is not installed.
    from turnstile.dev.dev_server import serve
    from turnstile.dev.reload.watched_code import find_code
    from turnstile.dev.reload.workers import DevWorkers

    settings = load(api_host=LOOPBACK, api_port=sockets[0].getsockname()[1])
    handler = handler or settings.find_queue(settings.queue).handler or HANDLER
    code = find_code(handler, Path.cwd())
    workers = DevWorkers({name: value for name, value in os.environ.items() if name not in ONE_PROCESS_ONLY}, handler)
    # Of the process alone that imports Turnstile for the workers: a file of the user's may be called like one of its modules.
    os.environ["PYTHONSAFEPATH"] = "1"
    lines = _welcome(settings, handler, code, home, named)
    asyncio.run(serve(settings, sockets, workers, handler, code, lambda: say("\n".join(lines))))
    say("stopped")


def _listen(port: int) -> list[socket]:
    try:
        return listen(LOOPBACK, port)
    except AddressUnusableError as error:
        raise CommandError(f"{error} with --port or TURNSTILE_API_PORT", ExitCode.USAGE) from None


def _welcome(settings: Settings, handler: str, code: Path | None, home: Path, named: str) -> list[str]:
    url = f"http://{LOOPBACK}:{settings.api_port}"
    program = program_name()
    elsewhere = "" if settings.api_url == url else f"TURNSTILE_API_URL={url} "
    return [
        "",
        f"page      {url}/   (docs of the API: {url}/docs)",
        f"handler   {handler}" + ("" if code is None else f"; a change in {code} starts a new worker"),
        f"logs      here; those of Postgres, Redis and SQS: {home}/*.log",
        f'submit    in another shell in this folder: eval "$({program} local env{named})"',
        f"          {elsewhere}{program} submit chat-1 'Good morning' --wait 60",
        f"stop      Ctrl-C; the stack stays up for the next time (`{program} local down{named}` stops it)",
        "",
    ]
