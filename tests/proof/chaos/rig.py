"""What every run with real processes begins and ends with: servers, evidence, the product's processes and their clients."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import httpx

from tests.proof.chaos.applications import Application
from tests.proof.chaos.clients import TIMEOUT_SECONDS, Client, Tally
from tests.proof.chaos.fork_server import PLANT
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.handler_evidence import RUNS
from tests.proof.chaos.journal import Journal
from tests.proof.chaos.key_rotation import KeyRotation
from tests.proof.chaos.quiescence import gather, wait_for_rest
from tests.proof.chaos.scaled_settings import LEASE_SECONDS, Options, scaled
from tests.proof.chaos.servers import Servers, open_servers
from tests.proof.chaos.supervisor import Supervisor, pause
from tests.proof.terms import make_terms, write_terms
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.stack import LocalStack

READY_SECONDS = 120.0

Variables = Callable[[str], Awaitable[dict[str, str]]]
"""From a process's name to its environment variables."""


@dataclass(slots=True, kw_only=True)
class Rig:
    """A run's processes. What differs in the environment is set before `start`."""

    options: Options
    journal: Journal
    servers: Servers
    processes: Supervisor
    http: httpx.AsyncClient
    keys: KeyRotation | None
    """None: contents are plain."""
    tally: Tally = field(default_factory=Tally)
    _urls: Iterator[str] = field(init=False)
    _application: Application = field(init=False)

    @property
    def folder(self) -> Path:
        return self.journal.folder

    async def start(self) -> None:
        """Starts all processes, and waits until the APIs are ready."""
        many = {"api": self.options.apis, "worker": self.options.workers, "relay": self.options.relays}
        self._urls = itertools.cycle(await start_processes(self.processes, many, self.variables))
        self._application = Application(await self.variables("application"))
        if self.keys is not None:
            self.keys.applications.append(self._application)

    async def variables(self, name: str, **more: str) -> dict[str, str]:
        # A relay in each worker would hide what the relays miss.
        relay = str(name == "worker-1").lower()
        given = {"TURNSTILE_RELAY": relay, RUNS: str(self.folder / "runs.jsonl"), **more}
        return await self.servers.variables(name, **given)

    def clients(
        self, prefix: str, stopping: asyncio.Event, options: Options | None = None, webhook_url: str | None = None
    ) -> list[Client]:
        """Clients of all APIs, which call until `stopping`."""
        given = options or self.options
        return [
            Client(
                f"{prefix}{number}", given, self.journal, self.tally, self.http, lambda: next(self._urls), stopping,
                webhook_url, self._application,
            )
            for number in range(given.clients)
        ]  # fmt: skip

    async def rest(self) -> float | None:
        """When all has settled; None if that took longer than the bound."""
        return await wait_for_rest(self.servers.remains(), self.options.bound_seconds)

    async def end(self, *, healed_at: float, rested_at: float | None, options: Options | None = None) -> list[str]:
        """Stops all processes and gathers the evidence; the names of processes that SIGTERM did not end."""
        late = await self.processes.stop_all()
        # The locks of those that were killed expire first.
        await pause(LEASE_SECONDS + 0.2)
        if self.keys is not None:
            await self.keys.open_stored()
        await asyncio.to_thread(gather, self.servers.remains(), self.journal)
        given = options or self.options
        with patch.dict(os.environ, scaled(given, self.servers.queue, self.servers.dlq)):
            settings = Settings()
        terms = make_terms(
            settings,
            name="chaos",
            seed=given.seed,
            bound_seconds=given.bound_seconds,
            healed_at=healed_at,
            rested_at=rested_at,
            calm=given.is_calm,
            compensates=True,
        )
        write_terms(terms, self.folder)
        return late


@asynccontextmanager
async def open_rig(
    options: Options,
    folder: Path,
    stack: LocalStack | None = None,
    server: ForkServer | None = None,
    base: Mapping[str, str] | None = None,
) -> AsyncIterator[Rig]:
    """A rig that has not started yet; `base` is more of the environment of all processes."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as exits:
        journal = exits.enter_context(closing(Journal(folder)))
        # Side by side: each of them imports for seconds, in a process of its own.
        servers, forks = await asyncio.gather(
            exits.enter_async_context(open_servers(options, folder, stack)),
            exits.enter_async_context(nullcontext(server) if server else ForkServer.open()),
        )
        servers.base.update(base or {})
        if options.plant is not None:
            servers.base[PLANT] = options.plant
        processes = await exits.enter_async_context(Supervisor(journal, forks))
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=TIMEOUT_SECONDS))
        keys = KeyRotation(servers, processes, journal, options.seed) if options.rotations else None
        yield Rig(options=options, journal=journal, servers=servers, processes=processes, http=http, keys=keys)


async def start_processes(processes: Supervisor, many: Mapping[str, int], variables: Variables) -> list[str]:
    """Starts so many of each role, named `<role>-<number>`; the URLs of the APIs, which are ready."""
    urls = []
    for role, count in many.items():
        for number in range(1, count + 1):
            name = f"{role}-{number}"
            environment = await variables(name)
            if role == "api":
                port = choose_free()
                urls.append(f"http://127.0.0.1:{port}")
                environment = {**environment, "TURNSTILE_API_PORT": str(port)}
            await processes.add(name, role, environment)
    async with httpx.AsyncClient(timeout=2.0) as http, asyncio.timeout(READY_SECONDS):
        for url in urls:
            while not await _is_ready(http, url):
                await pause(0.1)
    return urls


async def _is_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False
