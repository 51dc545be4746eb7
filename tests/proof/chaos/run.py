"""A run: set the stage, start the cast, let clients talk and the nemesis strike, heal, wait for rest, gather.

Safety is judged over the whole run; liveness from the moment on at which the last fault is over.
"""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from tests.proof.chaos import terms
from tests.proof.chaos.cast import Cast, pause
from tests.proof.chaos.clients import TIMEOUT_SECONDS, Client, Tally
from tests.proof.chaos.conversing import start_conversations
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.halted_sessions import let_sessions_go_on
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.kinds.scene import Scene
from tests.proof.chaos.nemesis import Nemesis, choose
from tests.proof.chaos.redis_watch import watch
from tests.proof.chaos.rest import gather, wait_for_rest
from tests.proof.chaos.stage import Stage, open_stage
from tests.proof.chaos.terms import Options
from tests.proof.chaos.testimony import RUNS
from tests.proof.chaos.webhook_receiver import open_receiver
from tests.proof.checker.evidence import Terms
from turnstile.ops.dev.stack.ports import choose_free
from turnstile.ops.dev.stack.stack import LocalStack

READY_SECONDS = 120.0
REDRIVE_EVERY_SECONDS = 12.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run came to, before the checker has looked at it."""

    folder: Path
    seconds: float
    accepted: int
    struck: Counter[str]
    unused: list[str]
    rested: bool
    ill: list[str]
    """What `turnstile doctor` called an error when everything was at rest."""
    late: list[str]
    """Processes that had to be killed because SIGTERM did not end them."""

    @property
    def faults(self) -> int:
        """How many hit something."""
        return self.struck.total()


async def run(
    options: Options,
    folder: Path,
    *,
    stack: LocalStack | None = None,
    server: ForkServer | None = None,
    report: Report = lambda text: None,
) -> Summary:
    """Makes one run; its evidence is in `folder` afterwards. Raises ValueError for an unknown kind of fault.

    Runs that share a stack or a fork server leave out the kinds of faults that would strike the others.
    """
    kinds = choose(options.kinds, shared=stack is not None, fifo=options.fifo)
    begun = time.monotonic()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    async with AsyncExitStack() as exits:
        exits.callback(journal.close)
        stage = await exits.enter_async_context(open_stage(options, folder, stack))
        forks = server or await exits.enter_async_context(ForkServer.open())
        receiver = await exits.enter_async_context(
            open_receiver(journal, stage.wiring.base, options.seed, moody=not options.is_calm)
        )
        cast = await exits.enter_async_context(Cast(journal, forks, options.plant))
        watching = asyncio.Event()
        redis_port = int(stage.stack.redis.url.rpartition(":")[2].partition("/")[0])
        watcher = asyncio.create_task(watch(redis_port, stage.wiring.redis_prefix, journal, watching))
        apis = await start_cast(stage, cast, folder)
        report(f"cast of {len(cast.parts)} is up after {time.monotonic() - begun:.1f} s")
        healing, quiet = asyncio.Event(), asyncio.Event()
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=TIMEOUT_SECONDS))
        turn = itertools.cycle(apis)
        tally = Tally()
        clients = [
            Client(f"c{number}", options, journal, tally, http, lambda: next(turn), quiet, receiver.url)
            for number in range(options.clients)
        ]
        scene = Scene(
            stage=stage,
            cast=cast,
            clients=clients,
            rng=random.Random(f"{options.seed}/nemesis"),
            healing=healing,
            redrive_addresses=await stage.addresses("redrive"),
        )
        nemesis = Nemesis(scene, kinds, journal, options.between_faults_seconds)
        talking = [asyncio.create_task(client.run()) for client in clients]
        talking += start_conversations(clients[: options.conversations])
        striking = asyncio.create_task(nemesis.run(options.lanes))
        redriving = asyncio.create_task(_redrive_now_and_then(scene))
        rested = asyncio.Event()
        deciding = asyncio.create_task(let_sessions_go_on(scene, rested) if options.halt else rested.wait())
        await _until_enough(options, tally, nemesis, [*talking, striking, redriving, deciding], report)
        healing.set()
        await asyncio.gather(striking, redriving)
        await _heal(scene)
        receiver.moody = False
        healed_at = now()
        # Some more turns after the faults: a system that only looks alive would not answer them.
        await pause(1.0)
        quiet.set()
        await asyncio.gather(*talking)
        report(f"healed; {tally.accepted} turns accepted, {nemesis.struck.total()} faults; waiting for rest")
        rested_at = await wait_for_rest(stage, options.bound_seconds)
        rested.set()
        await deciding
        ill = await _ask_the_doctor(stage, cast)
        late = await cast.stop_all()
        await gather(stage, journal)
        watching.set()
        await watcher
        write_terms(options, folder, healed_at=healed_at, rested_at=rested_at)
    return Summary(
        folder=folder,
        seconds=time.monotonic() - begun,
        accepted=tally.accepted,
        struck=nemesis.struck,
        unused=nemesis.unused,
        rested=rested_at is not None,
        ill=ill,
        late=late,
    )


async def start_cast(stage: Stage, cast: Cast, folder: Path) -> list[str]:
    """Starts all parts and waits until the APIs are ready; their URLs."""
    runs = {RUNS: str(folder / "runs.jsonl")}
    urls = []
    options = stage.options
    for number in range(1, options.apis + 1):
        port = choose_free()
        at = await stage.addresses(f"api-{number}")
        environment = stage.wiring.environment(at, TURNSTILE_API_PORT=str(port))
        await cast.add(f"api-{number}", "api", ["api"], environment)
        urls.append(f"http://127.0.0.1:{port}")
    for number in range(1, options.workers + 1):
        # Two relays of their own stand by; a worker's own would hide what they miss.
        own_relay = "true" if number == 1 else "false"
        at = await stage.addresses(f"worker-{number}")
        environment = stage.wiring.environment(at, TURNSTILE_RELAY=own_relay, **runs)
        await cast.add(f"worker-{number}", "worker", ["worker"], environment)
    for number in range(1, options.relays + 1):
        at = await stage.addresses(f"relay-{number}")
        environment = stage.wiring.environment(at)
        await cast.add(f"relay-{number}", "relay", ["relay"], environment)
    await wait_until_ready(urls)
    return urls


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


async def _until_enough(
    options: Options, tally: Tally, nemesis: Nemesis, tasks: list["asyncio.Task[None]"], report: Report
) -> None:
    begun = reported = time.monotonic()
    while True:
        await pause(0.2)
        for task in tasks:
            if task.done() and (error := task.exception()) is not None:
                raise error
        elapsed = time.monotonic() - begun
        enough = tally.accepted >= (options.turns or 0) and nemesis.struck.total() >= (options.faults or 0)
        # A run counts only if every kind was used; one that can't be used must not keep it for ever.
        if enough and elapsed >= options.seconds and (not nemesis.unused or elapsed > 3 * options.seconds + 150):
            return
        if time.monotonic() - reported > 15:
            reported = time.monotonic()
            report(f"{elapsed:.0f} s: {tally.accepted} turns accepted, {nemesis.struck.total()} faults")


async def _redrive_now_and_then(scene: Scene) -> None:
    """The operator, who puts dead turns back to work; what fails again is dead again."""
    while not await pause(REDRIVE_EVERY_SECONDS, scene.healing):
        await (await scene.redrive()).exited


async def _heal(scene: Scene) -> None:
    await scene.stage.proxy.heal()
    for part in scene.cast.parts.values():
        if part.frozen:
            scene.cast.resume(part)


async def _ask_the_doctor(stage: Stage, cast: Cast) -> list[str]:
    # Without the DLQ: that malformed messages lie there is right after a run that sends some.
    argv = ["doctor", "--json", "--no-dlq"]
    visit = await cast.run("doctor", argv, stage.wiring.environment(await stage.addresses("doctor")))
    code = await visit.exited
    text = (stage.folder / "logs" / f"doctor-{visit.pid}.log").read_text()
    if "{" not in text:
        return [f"exit code {code}: {text.strip()}"]
    document, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    return [f"{each['code']} {each['subject']}" for each in document["findings"] if each["severity"] == "error"]


def write_terms(options: Options, folder: Path, *, healed_at: float, rested_at: float | None) -> None:
    """The terms, for the checker."""
    stands = Terms(
        name="chaos",
        seed=options.seed,
        lease_seconds=options.lease_seconds,
        grace_seconds=terms.GRACE_SECONDS,
        net_seconds=terms.NET_SECONDS,
        relay_tick_seconds=terms.RELAY_TICK_SECONDS,
        retry_cap_seconds=terms.RETRY_CAP_SECONDS,
        max_attempts=terms.MAX_ATTEMPTS,
        max_crashes=terms.MAX_CRASHES,
        slots=terms.SLOTS,
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
