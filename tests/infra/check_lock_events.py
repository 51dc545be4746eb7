"""Each event that the metrics of locks and leases count is one that a worker writes: provoked with real servers, one by one.

check_log_patterns.py has the events of which there is one a metric.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.infra.log_pattern import events_of, matches
from tests.support.fleet.fleets import Fleet, cluster
from tests.support.fleet.servers import Server, choose_ports, program_of
from tests.support.given_queues import GivenQueues
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings

HELD = {"do": "sleep", "seconds": 600}
FOREVER_MILLISECONDS = 600_000


def delete_locks(server: Server) -> None:
    """As a flush or a failover takes them from under their holders."""
    assert server.client.delete(*server.client.keys("*lock:session:*"))


HARMS: list[tuple[str, str, Callable[[Server], object]]] = [
    ("lock.redis_away", "gone", Server.kill),
    ("lock.redis_away", "silent", lambda server: server.client.client_pause(FOREVER_MILLISECONDS)),
    ("lock.redis_refuses", "full", lambda server: server.client.config_set("maxmemory", "1")),
    ("lock.redis_refuses", "a replica", lambda server: server.client.replicaof("127.0.0.1", 1)),
    ("heartbeat.lock_lost", "flushed", delete_locks),
]
NODE_AWAY = "redis.node_away"
SUPERSEDED = "heartbeat.superseded"


async def counted_line(given: GivenQueues, worker: WorkerProcess, metric: str, event: str) -> None:
    """Waits for the event in a worker's log, and sees that the metric's pattern counts every such line."""
    await until(lambda: worker.said(event), within=60)
    pattern = given.terraform["log_patterns"][metric]
    lines = [line for line in worker.log_path.read_text(errors="replace").splitlines() if f'"{event}"' in line]

    assert lines
    assert [line for line in lines if not matches(pattern, line)] == []


def test_every_event_of_the_patterns_is_provoked_here(given: GivenQueues) -> None:
    patterns = given.terraform["log_patterns"]

    assert events_of(patterns["lock_timeout"]) == {event for event, _, _ in HARMS} | {NODE_AWAY}
    assert events_of(patterns["lease_lost"]) == {SUPERSEDED}


class TestWithARedisOfItsOwn:
    """One that may be harmed."""

    @pytest.fixture
    def server(self, stack: Stack) -> Iterator[Server]:
        """It ends with the test."""
        [port] = choose_ports(1)
        server = Server(program_of(stack), port, {})
        server.wait()
        yield server
        server.close()

    @pytest.fixture
    def settings(self, settings: Settings, server: Server) -> Settings:
        """The stack's, with that Redis in place of its own."""
        return settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{server.port}/0"})

    @pytest.mark.parametrize(("event", "harm"), [pytest.param(e, do, id=f"{e}: {how}") for e, how, do in HARMS])
    async def test_what_becomes_of_a_lock_is_counted(
        self,
        given: GivenQueues,
        product: Product,
        start_worker: StartWorker,
        server: Server,
        event: str,
        harm: Callable[[Server], object],
    ) -> None:
        worker = start_worker()
        await product.submit(HELD, session="held")
        await until(product.evidence)
        assert worker.said(event) == []

        await asyncio.to_thread(harm, server)
        # One lock is held and extended, another is to be taken.
        await product.submit({"do": "echo"}, session="other")

        await counted_line(given, worker, "lock_timeout", event)


class TestWithACluster:
    """A cluster of three masters, of which one goes away."""

    @pytest.fixture
    def fleet(self, stack: Stack) -> Iterator[Fleet]:
        """Nobody is in the place of a master that has gone."""
        with cluster(program_of(stack)) as running:
            yield running

    @pytest.fixture
    def settings(self, settings: Settings, fleet: Fleet) -> Settings:
        """The stack's, with that Redis in place of its own."""
        return settings.model_copy(update={"redis_url": fleet.url})

    async def test_a_node_that_is_away_is_counted(
        self, given: GivenQueues, product: Product, start_worker: StartWorker, fleet: Fleet
    ) -> None:
        worker = start_worker()

        async def has_locked() -> bool:
            await product.submit({"do": "echo"}, session="before")
            return any(line["result"] == "locked" for line in worker.said("session.lock"))

        # On a busy machine the cluster's layout may be read too late for the worker's first turn, which then runs without a lock.
        await until(has_locked, every=0.5)
        await product.submit(HELD, session="held")

        def node_of_the_lock() -> Server | None:
            return next((one for one in fleet.primaries if one.client.keys("*lock:session:{t/held}")), None)

        (await until(node_of_the_lock)).kill()

        await counted_line(given, worker, "lock_timeout", NODE_AWAY)


async def test_a_claim_that_was_taken_over_is_counted(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    frozen = start_worker()
    [turn] = await product.submit(HELD)
    await until(product.evidence)

    frozen.signal(signal.SIGSTOP)
    start_worker()

    async def taken_over() -> bool:
        return len(await product.evidence()) == 2

    await until(taken_over)
    frozen.signal(signal.SIGCONT)

    await counted_line(given, frozen, "lease_lost", SUPERSEDED)
    assert frozen.said(SUPERSEDED)[0]["turn_id"] == str(turn)
