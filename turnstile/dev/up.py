"""`turnstile up`: the local stack, an API and a worker in the foreground, until Ctrl-C."""

import json
import os
import shlex
import signal
import time
import uuid
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer

from turnstile.config.settings import Settings
from turnstile.dev.child_processes import ChildProcesses
from turnstile.dev.home import DEFAULT_HOME, SHORT_POLL, Home, home_option, program_name
from turnstile.dev.stack import stack
from turnstile.dev.stack.ports import choose_free, is_free
from turnstile.ops.container_health import is_live
from turnstile.ops.migration_run import apply
from turnstile.ops.queues.queues_command import create_declared
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import load_settings
from turnstile.ops.terminal.output import say
from turnstile.turn.identifiers import DEFAULT_TENANT, chosen_prefix

HANDLER = "turnstile.examples.eliza:respond"
GRACE_SECONDS = 5
_POLL_SECONDS = 0.1


def up(
    home: Home = DEFAULT_HOME,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port of the API. Default: 8080, or a free one.")
    ] = None,
    handler: Annotated[str, typer.Option(envvar="TURNSTILE_HANDLER", help="module:function.")] = HANDLER,
) -> None:
    """Run the local stack with an API and a worker, until Ctrl-C. The stack itself stays up."""
    chosen = {"TURNSTILE_LOG_FORMAT": "console", "TURNSTILE_GRACE_SECONDS": str(GRACE_SECONDS), **SHORT_POLL}
    for name, value in chosen.items():
        os.environ.setdefault(name, value)
    named = home_option(home)
    settings = bring_up(home)
    port = _choose_port(port, settings.api_port)
    signals = _collect_signals()
    children = ChildProcesses(os.environ, settings.grace_seconds)
    ended: dict[str, int] = {}
    try:
        children.start("api", "api", "--host", "127.0.0.1", "--port", str(port))
        children.start("worker", "worker", "--queue", settings.queue, "--handler", handler)
        ready = False
        while not (ended := children.ended()) and signals.empty():
            if not ready and (ready := is_live(port, "/readyz")):
                _print_welcome(f"http://127.0.0.1:{port}", settings)
            time.sleep(_POLL_SECONDS)
        if not ended:
            signals.get()
            say("stopping; Ctrl-C again ends the grace period of running turns")
    finally:
        stopped = children.stop(signals)
    for name, code in ended.items():
        raise CommandError(f"the {name} ended with exit code {code}; see its last lines above")
    if not stopped:
        raise CommandError("not all of it ended by itself, the rest was killed")
    say(f"stopped; the stack is still up ({program_name()} local down{named})")


def bring_up(home: Path) -> Settings:
    """Starts the stack, and creates queues and tables. Adds the stack's variables to the environment of this process, and returns
    its settings."""
    say("PostgreSQL, Redis and SQS …")
    local = stack.up(home)
    local.postgres.prefer_public()
    os.environ.update(local.environment())
    settings = load_settings()
    say(f"queues ({', '.join(queue.name for queue in settings.queues)}) …")
    create_declared(settings)
    say("migrations …")
    apply(settings.database)
    return settings


def _collect_signals() -> "SimpleQueue[int]":
    """The signals that ask to stop, from now on."""
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An ignored signal stays ignored: SIGINT of `turnstile up &` in a script, SIGHUP of nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Not an exception: during a Popen, it would leave a child behind.
            signal.signal(number, lambda received, _: signals.put(received))
    return signals


def _choose_port(wanted: int | None, usual: int) -> int:
    if wanted is not None and not is_free(wanted):
        raise CommandError(
            f"port {wanted} is taken by another program: stop it, or choose another --port", ExitCode.USAGE
        )
    if wanted is not None or is_free(usual):
        return wanted or usual
    return choose_free()


def _print_welcome(url: str, settings: Settings) -> None:
    key = settings.api_key or ""
    authorization = f"-H {shlex.quote(f'Authorization: Bearer {key}')}"
    # The id is chosen here, so that the second line finds the turn of the first.
    tenant_id = {key: tenant_id for tenant_id, key in settings.api_keys}.get(key, DEFAULT_TENANT)
    turn_id = uuid.UUID(chosen_prefix(tenant_id) + uuid.uuid4().hex[12:])
    body = json.dumps({"input": "I have been thinking about the sea", "turn_id": str(turn_id)})
    say("")
    say(f"API        {url}   (docs: {url}/docs)")
    say(f"database   {settings.database_url}")
    say(f"queue      {settings.queue} at {settings.sqs_endpoint_url}")
    say("")
    say("In another shell in this folder: submit a turn, and wait for its reply, the `output`:")
    say(
        f"  curl -s {url}/v1/sessions/chat-1/turns {authorization} -H 'Content-Type: application/json' -H 'Prefer: wait=30' "
        f"-d {shlex.quote(body)}"
    )
    say("See the same turn as it happened, event by event:")
    say(f"  curl -sN {url}/v1/turns/{turn_id}/events {authorization}")
    say("Or by the command line:")
    say(
        f"  TURNSTILE_API_URL={url} TURNSTILE_API_KEY={shlex.quote(key)} "
        f"{program_name()} submit chat-1 'Good morning' --wait 60"
    )
    say("Ctrl-C stops the API and the worker.")
    say("")
