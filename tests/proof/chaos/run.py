"""A run: start the servers and processes, let clients call and faults strike, heal, wait for rest, gather.

Safety is judged over the whole run; liveness from the moment on at which the last fault is over.
"""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.proof.chaos.clients import Tally
from tests.proof.chaos.conversing import start_conversations
from tests.proof.chaos.forking import ForkServer
from tests.proof.chaos.halted_sessions import let_sessions_go_on
from tests.proof.chaos.journal import now
from tests.proof.chaos.kinds.scene import Scene
from tests.proof.chaos.nemesis import Nemesis, choose
from tests.proof.chaos.redis_watch import watch
from tests.proof.chaos.rig import Rig, open_rig
from tests.proof.chaos.scaled_settings import Options
from tests.proof.chaos.supervisor import pause
from tests.proof.chaos.webhook_receiver import open_receiver
from turnstile.dev.stack.stack import LocalStack

REDRIVE_EVERY_SECONDS = 12.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run came to, before the checker has looked at it."""

    seconds: float
    accepted: int
    struck: Counter[str]
    unused: list[str]
    rested: bool
    ill: list[str]
    """What `turnstile doctor` called an error when everything was at rest."""
    late: list[str]
    """Processes that had to be killed because SIGTERM did not end them."""


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
    async with open_rig(options, folder, stack, server) as rig:
        servers, processes, journal, tally = rig.servers, rig.processes, rig.journal, rig.tally
        async with open_receiver(journal, servers.base, options.seed, moody=not options.is_calm) as receiver:
            watching = asyncio.Event()
            watcher = asyncio.create_task(watch(servers.stack.redis.url, servers.redis_prefix, journal, watching))
            await rig.start()
            report(f"{len(processes.parts)} processes run after {time.monotonic() - begun:.1f} s")
            healing, quiet = asyncio.Event(), asyncio.Event()
            clients = rig.clients("c", quiet, webhook_url=receiver.url)
            scene = Scene(
                servers=servers,
                processes=processes,
                clients=clients,
                rng=random.Random(f"{options.seed}/nemesis"),
                healing=healing,
            )
            nemesis = Nemesis(scene, kinds, journal, options.between_faults_seconds)
            talking = [asyncio.create_task(client.run()) for client in clients]
            talking += start_conversations(clients[: options.conversations])
            striking = asyncio.create_task(nemesis.run(options.lanes))
            redriving = asyncio.create_task(_redrive_now_and_then(scene))
            rotating = asyncio.create_task(_rotate(rig, options, report))
            rested = asyncio.Event()
            deciding = asyncio.create_task(_decide(scene, rested, options))
            await _until_enough(options, tally, nemesis, [*talking, striking, redriving, deciding], rotating, report)
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
            rested_at = await rig.rest()
            rested.set()
            await deciding
            ill = await _ask_the_doctor(rig)
            if rig.keys is not None:
                ill += await asyncio.to_thread(rig.keys.find_left)
            late = await rig.end(healed_at=healed_at, rested_at=rested_at)
            watching.set()
            await watcher
    return Summary(
        seconds=time.monotonic() - begun,
        accepted=tally.accepted,
        struck=nemesis.struck,
        unused=nemesis.unused,
        rested=rested_at is not None,
        ill=ill,
        late=late,
    )


async def _until_enough(
    options: Options,
    tally: Tally,
    nemesis: Nemesis,
    tasks: list["asyncio.Task[None]"],
    rotating: "asyncio.Task[None]",
    report: Report,
) -> None:
    begun = reported = time.monotonic()
    while True:
        await pause(0.2)
        for task in (*tasks, rotating):
            if task.done() and (error := task.exception()) is not None:
                raise error
        elapsed = time.monotonic() - begun
        enough = (
            tally.accepted >= (options.turns or 0)
            and nemesis.struck.total() >= (options.faults or 0)
            and rotating.done()
        )
        # A run counts only if every kind was used; one that can't be used must not keep it for ever.
        if enough and elapsed >= options.seconds and (not nemesis.unused or elapsed > 3 * options.seconds + 150):
            return
        if time.monotonic() - reported > 15:
            reported = time.monotonic()
            report(f"{elapsed:.0f} s: {tally.accepted} turns accepted, {nemesis.struck.total()} faults")


async def _decide(scene: Scene, rested: asyncio.Event, options: Options) -> None:
    if options.halt:
        await let_sessions_go_on(scene, rested)
    await rested.wait()


async def _rotate(rig: Rig, options: Options, report: Report) -> None:
    """Replaces the key of contents, at equal distances in the time of the faults."""
    for number in range(1, options.rotations + 1):
        await pause(options.seconds / (options.rotations + 1))
        if rig.keys is not None:
            begun = time.monotonic()
            await rig.keys.rotate()
            report(
                f"key {number + 1} seals; all resealed after {time.monotonic() - begun:.0f} s, {rig.keys.killed} killed"
            )


async def _redrive_now_and_then(scene: Scene) -> None:
    """The operator, who puts dead turns back to work; what fails again is dead again."""
    while not await pause(REDRIVE_EVERY_SECONDS, scene.healing):
        await (await scene.redrive()).exited


async def _heal(scene: Scene) -> None:
    await scene.servers.proxy.heal()
    for part in scene.processes.parts.values():
        if part.frozen:
            scene.processes.send(part.name, signal.SIGCONT)


async def _ask_the_doctor(rig: Rig) -> list[str]:
    # Without the DLQ: that malformed messages lie there is right after a run that sends some.
    argv = ["doctor", "--json", "--no-dlq"]
    visit = await rig.processes.run(argv, await rig.servers.variables("doctor"))
    code = await visit.exited
    text = (rig.folder / "logs" / f"doctor-{visit.pid}.log").read_text()
    if "{" not in text:
        return [f"exit code {code}: {text.strip()}"]
    document, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    # That turns fail is what a run is for.
    ill = [each for each in document["findings"] if each["severity"] == "error" and each["code"] != "failing"]
    return [f"{each['code']} {each['subject']}" for each in ill]
