"""What every run with real processes begins and ends with: stage, evidence, the product's processes and their clients."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

from tests.proof.chaos import scaled_settings
from tests.proof.chaos.clients import TIMEOUT_SECONDS, Client, Tally
from tests.proof.chaos.environment import Environment, open_environment
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.handler_evidence import RUNS
from tests.proof.chaos.journal import Journal
from tests.proof.chaos.quiescence import gather
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import Supervisor, pause
from tests.proof.checker.evidence import Terms
from turnstile.ops.dev.stack.ports import choose_free
from turnstile.ops.dev.stack.stack import LocalStack

READY_SECONDS = 120.0


@dataclass(slots=True, kw_only=True)
class Company:
    """A run's processes. Settings of the stage that differ are set before `start`."""

    options: Options
    journal: Journal
    stage: Environment
    cast: Supervisor
    http: httpx.AsyncClient
    tally: Tally = field(default_factory=Tally)
    _urls: Iterator[str] = field(init=False)

    @property
    def folder(self) -> Path:
        return self.journal.folder

    async def start(self) -> None:
        """Starts all processes, and waits until the APIs are ready."""
        options, urls = self.options, []
        for number in range(1, options.apis + 1):
            port = choose_free()
            urls.append(f"http://127.0.0.1:{port}")
            await self._add("api", number, TURNSTILE_API_PORT=str(port))
        for number in range(1, options.workers + 1):
            # Relays of their own are there; a relay in each worker would hide what they miss.
            await self._add("worker", number, **self.worker_environment(relay=number == 1))
        for number in range(1, options.relays + 1):
            await self._add("relay", number)
        await wait_until_ready(urls)
        self._urls = itertools.cycle(urls)

    def worker_environment(self, *, relay: bool) -> dict[str, str]:
        return {"TURNSTILE_RELAY": str(relay).lower(), RUNS: str(self.folder / "runs.jsonl")}

    def clients(
        self, prefix: str, stopping: asyncio.Event, options: Options | None = None, webhook_url: str | None = None
    ) -> list[Client]:
        """Clients of all APIs, which call until `stopping`."""
        given = options or self.options
        return [
            Client(
                f"{prefix}{number}", given, self.journal, self.tally, self.http, lambda: next(self._urls), stopping,
                webhook_url,
            )
            for number in range(given.clients)
        ]  # fmt: skip

    async def end(self, *, healed_at: float, rested_at: float | None, options: Options | None = None) -> list[str]:
        """Stops all processes and gathers the evidence; the names of processes that SIGTERM did not end."""
        late = await self.cast.stop_all()
        await gather(self.stage, self.journal)
        write_terms(options or self.options, self.folder, healed_at=healed_at, rested_at=rested_at)
        return late

    async def _add(self, role: str, number: int, **more: str) -> None:
        name = f"{role}-{number}"
        environment = self.stage.wiring.environment(await self.stage.addresses(name), **more)
        await self.cast.add(name, role, [role], environment)


@asynccontextmanager
async def open_company(
    options: Options,
    folder: Path,
    stack: LocalStack | None = None,
    server: ForkServer | None = None,
    base: Mapping[str, str] | None = None,
) -> AsyncIterator[Company]:
    """A company that has not started yet; `base` is more of the environment of all processes."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as exits:
        journal = exits.enter_context(closing(Journal(folder)))
        # Side by side: each of them imports for seconds, in a process of its own.
        stage, forks = await asyncio.gather(
            exits.enter_async_context(open_environment(options, folder, stack)),
            exits.enter_async_context(nullcontext(server) if server else ForkServer.open()),
        )
        stage.wiring.base.update(base or {})
        cast = await exits.enter_async_context(Supervisor(journal, forks, options.plant))
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=TIMEOUT_SECONDS))
        yield Company(options=options, journal=journal, stage=stage, cast=cast, http=http)


async def wait_until_ready(urls: list[str]) -> None:
    """Until each of these APIs says so. Raises TimeoutError."""
    async with httpx.AsyncClient(timeout=2.0) as http, asyncio.timeout(READY_SECONDS):
        for url in urls:
            while not await _is_ready(http, url):
                await pause(0.1)


async def _is_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


def write_terms(options: Options, folder: Path, *, healed_at: float, rested_at: float | None) -> None:
    stands = Terms(
        name="chaos",
        seed=options.seed,
        lease_seconds=options.lease_seconds,
        grace_seconds=scaled_settings.GRACE_SECONDS,
        resend_seconds=scaled_settings.RESEND_SECONDS,
        relay_tick_seconds=scaled_settings.RELAY_TICK_SECONDS,
        retry_cap_seconds=scaled_settings.RETRY_CAP_SECONDS,
        max_attempts=scaled_settings.MAX_ATTEMPTS,
        max_crashes=scaled_settings.MAX_CRASHES,
        slots=scaled_settings.SLOTS,
        bound_seconds=options.bound_seconds,
        healed_at=healed_at,
        rested_at=rested_at,
        calm=options.is_calm,
        fifo=options.fifo,
        halts=options.halt,
        compensates=True,
        tenant_slots=options.tenant_cap,
    )
    (folder / "run.json").write_text(json.dumps(asdict(stands), indent=2) + "\n")
