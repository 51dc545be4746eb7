"""The demo and its acts."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import typer

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DEFAULT_SCHEMA
from turnstile.client import AsyncClient
from turnstile.config.config_file import load
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.dev.child_processes import ChildProcesses
from turnstile.dev.demo.clients import Ledger, Sessions, talk, write_sessions
from turnstile.dev.demo.demo_checks import Finding, judge, read_rows
from turnstile.dev.demo.demo_handler import OUTAGE_FILE
from turnstile.dev.demo.demo_screen import Screen, print_outcome
from turnstile.dev.home import DEFAULT_HOME, Home, home_option, program_name
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.stack import LocalStack, down, find, up
from turnstile.dev.stack.tables import make_tables
from turnstile.examples.conversations import load as load_conversations
from turnstile.message_queue import MessageQueues
from turnstile.ops.container_health import is_live
from turnstile.ops.queues.queues_command import create_declared
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import say
from turnstile.turn.status import TurnStatus

ACT_SECONDS = 60.0
"""Timeout of an act."""
LEASE_SECONDS = 2.0
"""Short, so that the turns of the killed worker continue soon."""
KILL_AT = 0.3
"""Share of succeeded turns at which a worker is killed."""

TURN = "(a turn: a user's message in a conversation, and the reply to it)"
DEAD_LETTER = "(a dead letter: the message that says of a turn that it has finally failed; it waits for an operator)"
REDRIVE = "(a redrive: failed turns are put back to work, and their dead letters deleted)"

COUNT: LiteralString = "SELECT status, count(*)::int AS many FROM turns GROUP BY 1"


@dataclass(frozen=True, slots=True)
class Stage:
    """The resources of the acts."""

    settings: Settings
    processes: ChildProcesses
    database: Database
    queues: MessageQueues
    client: AsyncClient
    screen: Screen
    outage: Path
    sessions: Sessions
    ledger: Ledger

    @property
    def total(self) -> int:
        """The number of turns that the clients submit."""
        return sum(map(len, self.sessions.values()))

    async def count(self) -> dict[str, int]:
        """Turns by status. Also updates the screen."""
        counts = {row["status"]: row["many"] for row in await self.database.fetch(COUNT, {})}
        self.screen.counts(counts, self.total)
        return counts

    async def until(self, what: str, reached: Callable[[dict[str, int]], Awaitable[bool] | bool]) -> None:
        """Polls until `reached` holds. Raises CommandError after a timeout, or if a process ended by itself."""
        deadline = time.monotonic() + ACT_SECONDS
        while True:
            holds = reached(await self.count())
            if holds if isinstance(holds, bool) else await holds:
                return
            for name in self.processes.ended():
                # Printed here, because an error message has only one line.
                self.screen.output("\n".join(self.processes.log(name).read_text(errors="replace").splitlines()[-5:]))
                raise CommandError(f"{name} ended by itself; the end of its log is above", ExitCode.FAILED)
            if time.monotonic() > deadline:
                raise CommandError(f"the demo waited {ACT_SECONDS:g} s for: {what}", ExitCode.FAILED)
            await asyncio.sleep(0.1)


def demo(home: Home = DEFAULT_HOME) -> None:
    """Run a demonstration: conversations, a killed worker, dead letters, a redrive, and a check at the end."""
    # Before the stack's variables are in the environment.
    named = home_option(home)
    sessions = write_sessions(load_conversations())
    say("Starting PostgreSQL, Redis and SQS …")
    before = find(home)
    was_running = before is not None and before.is_running()
    _raise_on_signals()
    stack = up(home)
    folder = Path(tempfile.mkdtemp(prefix="turnstile-demo-"))
    # Its own database, queues and Redis prefix, so that the demo does not touch other data on the stack.
    name = f"demo_{secrets.token_hex(4)}"
    stack.postgres.create_database(name)
    holds = False
    try:
        make_tables(stack.postgres, name)
        holds = asyncio.run(_play(stack, name, folder, sessions))
    finally:
        stack.postgres.drop_database(name)
        if holds:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"The logs of the demo's processes are in {folder}")
        if not was_running:
            # Only a stack that the demo itself has started.
            down(home)
    if holds:
        say(f"next: `{program_name()} dev{named}` runs an API, a worker and a page to talk to them")
    raise typer.Exit(ExitCode.OK if holds else ExitCode.FAILED)


def _raise_on_signals() -> None:
    # So that the clean-up runs, as for a Ctrl-C: the API and the workers have sessions of their own, and would outlive the demo.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda caught, _: sys.exit(128 + caught))


async def _play(stack: LocalStack, name: str, folder: Path, sessions: Sessions) -> bool:
    async with _stage(stack, name, folder, sessions) as stage:
        await _open(stage)
        began = time.monotonic()
        await _converse(stage)
        await _repair(stage)
        seconds = time.monotonic() - began
        findings = await _check(stage)
        stage.processes.stop()
        rows = await read_rows(stage.database)
    print_outcome(rows, findings, seconds)
    return all(finding.holds for finding in findings)


@asynccontextmanager
async def _stage(stack: LocalStack, name: str, folder: Path, sessions: Sessions) -> AsyncIterator[Stage]:
    port, outage = choose_free(), folder / "outage"
    outage.touch()
    environment = {
        **stack.environment(name),
        "TURNSTILE_DATABASE_SCHEMA": DEFAULT_SCHEMA,
        "TURNSTILE_QUEUES": json.dumps([{"name": name, "visibility_seconds": 4}]),
        "TURNSTILE_QUEUE": name,
        "TURNSTILE_REDIS_PREFIX": f"{name}:",
        "TURNSTILE_HANDLER": "turnstile.dev.demo.demo_handler:respond",
        "TURNSTILE_CONCURRENCY": "16",
        "TURNSTILE_API_HOST": "127.0.0.1",
        "TURNSTILE_API_PORT": str(port),
        "TURNSTILE_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
        "TURNSTILE_RECEIVE_WAIT_SECONDS": "1",
        "TURNSTILE_TAKEOVER_RESEND_SECONDS": "1",
        "TURNSTILE_GRACE_SECONDS": "2",
        "TURNSTILE_LOG_FORMAT": "json",
        OUTAGE_FILE: str(outage),
    }
    # This process reads the same queues with the same settings.
    os.environ.update(environment)
    settings = load()
    await asyncio.to_thread(create_declared, settings)
    processes = ChildProcesses(os.environ, settings.grace_seconds, folder)
    queues = MessageQueues(settings)
    client = AsyncClient(f"http://127.0.0.1:{port}", api_key=settings.api_key)
    try:
        contents = read_contents(settings)
        async with Database(settings.database, "turnstile-demo", size=2, contents=contents) as database, client:
            yield Stage(settings, processes, database, queues, client, Screen(), outage, sessions, Ledger())
    finally:
        processes.stop()
        await queues.close()


async def _open(stage: Stage) -> None:
    stage.processes.start("api", "api")
    for worker in ("worker-1", "worker-2"):
        stage.processes.start(worker, "worker")
    stage.screen.output(TURN)
    stage.screen.event(
        f"an API and two workers are starting; {len(stage.sessions)} clients have {stage.total} turns to submit"
    )
    await stage.until("the API", lambda _: asyncio.to_thread(is_live, stage.settings.api_port, "/readyz"))


async def _converse(stage: Stage) -> None:
    """The main act: all clients submit, a worker is killed, one turn is cancelled."""
    talking = asyncio.gather(*(talk(stage.client, *one, stage.ledger) for one in stage.sessions.items()))

    def some_ended(counts: dict[str, int]) -> bool:
        return counts.get(TurnStatus.SUCCEEDED, 0) >= KILL_AT * stage.total and counts.get(TurnStatus.RUNNING, 0) > 0

    await stage.until("the first answers", some_ended)
    pid = stage.processes.kill("worker-1")
    stage.screen.event(f"worker-1 (pid {pid}) was killed with SIGKILL in the middle of its turns; worker-3 replaces it")
    stage.processes.start("worker-3", "worker")
    await talking
    [endless] = stage.ledger.turns("endless")

    async def running(_: dict[str, int]) -> bool:
        return (await stage.client.read(str(endless)))["status"] == TurnStatus.RUNNING

    await stage.until("the turn that never ends", running)
    await stage.client.cancel(str(endless))
    stage.screen.event("a client cancelled its turn, which was running")
    await stage.until("all turns to end", lambda counts: _ended(counts) == stage.total)


def _ended(counts: dict[str, int]) -> int:
    return sum(many for status, many in counts.items() if TurnStatus(status).is_terminal)


async def _repair(stage: Stage) -> None:
    """The operator's act: list the dead letters, repair the cause, redrive."""
    failed = len(stage.ledger.turns("outage"))

    async def dead_lettered(_: dict[str, int]) -> bool:
        return await stage.queues.count(stage.settings.queue, dead=True) >= failed

    await stage.until("the dead letters", dead_lettered)
    stage.screen.output(DEAD_LETTER)
    await _command(stage, "dlq", "list")
    await asyncio.to_thread(stage.outage.unlink)
    stage.screen.event("the cause is repaired")
    stage.screen.output(REDRIVE)
    await _command(stage, "redrive", "--queue", stage.settings.queue, "--yes")
    succeeded = stage.total - len(stage.ledger.turns("endless"))
    await stage.until("the redriven turns", lambda counts: counts.get(TurnStatus.SUCCEEDED, 0) == succeeded)


async def _command(stage: Stage, *arguments: str) -> None:
    stage.screen.event(f"$ turnstile {' '.join(arguments)}")
    command = [sys.executable, "-m", "turnstile.ops.main", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    stage.screen.output(done.stdout + done.stderr)
    if done.returncode:
        raise CommandError(f"turnstile {' '.join(arguments)} ended with {done.returncode}", ExitCode.FAILED)


async def _check(stage: Stage) -> list[Finding]:
    async def empty(_: dict[str, int]) -> bool:
        # Messages of the killed worker stay in flight until their visibility timeout ends.
        left = [await stage.queues.count(stage.settings.queue, dead=dead) for dead in (False, True)]
        return not any(left)

    try:
        await stage.until("empty queues", empty)
    except CommandError as error:
        stage.screen.event(str(error))
    return await judge(await read_rows(stage.database), stage.ledger, stage.queues, stage.settings.queue)
