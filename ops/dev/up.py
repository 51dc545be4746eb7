"""`turnstile up`: the local stack, an API and a worker in the foreground, until Ctrl-C."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnstile.ops.dev.local_command import DEFAULT_HOME, SHORT_POLL, Home, bring_up
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import say

if TYPE_CHECKING:
    from turnstile.config.settings import Settings

HANDLER = "turnstile.examples.eliza:respond"
START_SECONDS = 60.0
GRACE_SECONDS = 5.0
KILL_AFTER_SECONDS = 20.0
_POLL_SECONDS = 0.1
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Child:
    """A `turnstile` command as a child process. Its output is printed line by line with its name."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "turnstile.ops.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            # The terminal sends Ctrl-C to the whole process group. The child would then get two signals, and the second means
            # "stop at once".
            start_new_session=True,
        )
        self._output = threading.Thread(target=self._pass_on, name=f"output-{name}", daemon=True)
        self._output.start()

    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if the process still runs."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def finish_output(self) -> None:
        """Waits up to two seconds until the last line is printed."""
        self._output.join(2.0)

    def _pass_on(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - PIPE above
        for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip()
            # The child writes to a pipe and can't know whether its colours reach a terminal.
            shown = text if sys.stdout.isatty() else _COLOUR.sub("", text)
            sys.stdout.write(f"{self.name:<6} | {shown}\n")
            sys.stdout.flush()


class Stop:
    """Counts stop signals: the first asks for a clean stop, later ones for a faster stop."""

    def __init__(self) -> None:
        self.asked = 0
        self.changed = threading.Event()

    def install(self) -> None:
        """Installs handlers for SIGINT, SIGTERM and SIGHUP (the terminal was closed)."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked += 1
        self.changed.set()


def up(
    home: Home = DEFAULT_HOME,
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Of the API; 8080 or a free one.")] = None,
    handler: Annotated[str, typer.Option(envvar="TURNSTILE_HANDLER", help="module:function.")] = HANDLER,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", min=1, show_default=False)] = None,
) -> None:
    """Run the local stack with an API and a worker, until Ctrl-C. The stack itself stays up."""
    _, settings = bring_up(home)
    port = _choose_port(port, settings.api_port)
    environment = _environment()
    stop = Stop()
    stop.install()
    slots = [] if concurrency is None else ["--concurrency", str(concurrency)]
    children = [
        Child("api", ["api", "--host", "127.0.0.1", "--port", str(port)], environment),
        Child("worker", ["worker", "--queue", settings.queue, "--handler", handler, *slots], environment),
    ]
    try:
        if _wait_until_ready(port, children, stop):
            _print_welcome(f"http://127.0.0.1:{port}", settings)
        dead = _watch(children, stop)
    finally:
        stopped = _stop(children, stop)
    if dead is not None:
        raise CommandError(f"the {dead.name} ended with exit code {dead.exit_code()}; see its last lines above")
    if not stopped:
        raise CommandError("not all of it ended by itself, the rest was killed")
    say("stopped; the stack is still up (turnstile local down)")


def _choose_port(wanted: int | None, usual: int) -> int:
    from turnstile.ops.dev.stack.ports import choose_free, is_free

    if wanted is not None and not is_free(wanted):
        raise CommandError(f"port {wanted} is taken", ExitCode.USAGE)
    if wanted is not None or is_free(usual):
        return wanted or usual
    return choose_free()


def _environment() -> dict[str, str]:
    """The environment of this process, which includes the stack's variables, with defaults for interactive use."""
    chosen = {
        "TURNSTILE_LOG_FORMAT": "console",
        "TURNSTILE_GRACE_SECONDS": f"{GRACE_SECONDS:g}",
        **SHORT_POLL,
    }
    return chosen | os.environ | {"PYTHONUNBUFFERED": "1"}


def _wait_until_ready(port: int, children: Sequence[Child], stop: Stop) -> bool:
    # http.client, because it ignores proxies.
    from http.client import HTTPConnection, HTTPException

    deadline = time.monotonic() + START_SECONDS
    while (
        time.monotonic() < deadline and not stop.asked and not any(child.exit_code() is not None for child in children)
    ):
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return True
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        stop.changed.wait(_POLL_SECONDS)
    return False


def _watch(children: Sequence[Child], stop: Stop) -> Child | None:
    """Returns the child that died, or None after a stop signal."""
    while not stop.asked:
        for child in children:
            if child.exit_code() is not None:
                return child
        stop.changed.wait(_POLL_SECONDS)
    return None


def _stop(children: Sequence[Child], stop: Stop) -> bool:
    """Stops all children: cleanly first, at once on a second signal, with SIGKILL after a timeout. False if killed."""
    patience = float(os.environ.get("TURNSTILE_GRACE_SECONDS", GRACE_SECONDS)) + KILL_AFTER_SECONDS
    deadline = time.monotonic() + patience
    asked = stop.asked
    clean = True
    for child in children:
        child.signal(signal.SIGTERM)
    while any(child.exit_code() is None for child in children):
        if stop.asked > asked:
            asked = stop.asked
            for child in children:
                child.signal(signal.SIGTERM)
        if time.monotonic() > deadline:
            clean = False
            for child in children:
                child.signal(signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    for child in children:
        child.finish_output()
    return clean


def _print_welcome(url: str, settings: "Settings") -> None:
    key = settings.api_key or ""
    body = '{"input": "I have been thinking about the sea"}'
    curl = (
        f"curl -s {url}/v1/sessions/alice/turns -H {shlex.quote(f'Authorization: Bearer {key}')} "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )
    say("")
    say(f"API        {url}   (docs: {url}/docs)")
    say(f"database   {settings.database_url}")
    say(f"queue      {settings.queue} at {settings.sqs_endpoint_url}")
    say("")
    say("Submit a turn:")
    say(f"  {curl}")
    say("or, and wait for the reply, in another shell:")
    say(
        f"  TURNSTILE_API_URL={url} TURNSTILE_API_KEY={shlex.quote(key)} turnstile submit alice 'Good morning' --wait 60"
    )
    say("Ctrl-C stops the API and the worker.")
    say("")
