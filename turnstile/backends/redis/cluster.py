"""A Redis Cluster, as far as the product uses one: each command goes to the node that has its key, and fails alone with it.

redis-py's own cluster clients know which node has which slot and follow a slot that moves. What they do not do is to keep one
node's failure to its own commands: a pipeline of theirs fails as a whole where one node refuses the connection, and without
retries they never look for the node that has taken over. So here a batch is split by node, each part is a pipeline of its own,
a node that does not answer is left alone for a while (the others are not), and who has which slot is read anew meanwhile.

All keys of a session share a hash tag, so no script needs two nodes. What is published on one node is heard on all.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis.asyncio
import redis.asyncio.cluster
import structlog
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, RedisError

from turnstile.backends.redis.batch import FAILURES, Batch, Command, NodeAwayError, Nodes, combine, settle, split

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger("turnstile.redis")


class Cluster:
    """For the event loop. Connects when it is first used; raises RedisError if no node at all answers."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        timeout_seconds: float,
        options: Mapping[str, Any],
        max_connections: int | None = None,
    ) -> None:
        self._addresses = addresses
        self._timeout = timeout_seconds
        self._options = options
        self._client = self._make()
        self._nodes = Nodes()
        self._slots = None if max_connections is None else asyncio.Semaphore(max_connections)
        self._reading: asyncio.Task[None] | None = None
        self._turn = secrets.randbelow(1000)

    def _make(self) -> Any:
        startup = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in self._addresses]
        # Part of the slots is better than none; and on a slot that moved, redis-py would close all connections now and then.
        return redis.asyncio.RedisCluster(
            startup_nodes=startup, require_full_coverage=False, reinitialize_steps=0, **self._options
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._client.aclose()

    def pipeline(self, *, transaction: bool) -> Batch:
        """A batch. `transaction` is False: there is no MULTI over several nodes."""
        if transaction:
            raise ValueError("a cluster has no transactions over several sessions")
        return Batch(self)

    def pubsub(self, **options: Any) -> Any:
        """A subscription on one of the nodes, the next time on another: whichever it is hears what is said on all."""
        nodes = [(node.host, node.port) for node in self._client.get_nodes()] or list(self._addresses)
        self._turn += 1
        host, port = nodes[self._turn % len(nodes)]
        return redis.asyncio.Redis(host=host, port=port, **self._options).pubsub(**options)

    async def eval(self, script: str, keys: int, *arguments: Any) -> Any:
        """EVAL; waits for a connection where there may be only so many."""
        command = ("EVAL", script, keys, *arguments)
        if self._slots is None:
            return (await self.run([command]))[0]
        async with asyncio.timeout(self._timeout):
            await self._slots.acquire()
        try:
            return (await self.run([command]))[0]
        finally:
            self._slots.release()

    async def ping(self) -> bool:
        """Whether one of the primaries answers; raises if none does."""
        return bool(await self._ask_primaries("PING"))

    async def info(self) -> dict[str, Any]:
        """INFO of the primaries that answer, as one; raises if none does."""
        return combine(await self._ask_primaries("INFO"))

    async def scan_iter(self, match: str, count: int) -> AsyncIterator[str]:
        """The keys of all primaries; raises if one does not answer."""
        await self._connect()
        for node in self._client.get_primaries():
            cursor = 0
            while True:
                [answer] = settle(await self._ask(node, [("SCAN", cursor, "MATCH", match, "COUNT", count)]), True)
                cursor, keys = answer
                for key in keys:
                    yield key
                if cursor == 0:
                    break

    async def run(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        """The answers in the order of the commands; those of a node that does not answer are NodeAwayErrors."""
        await self._connect()
        groups, answers = split(self._client, commands)
        parts = [(node, places) for node, places in groups.values()]
        found = await asyncio.gather(*(self._ask(node, [commands[at] for at in places]) for node, places in parts))
        if answers:
            self._read_slots()
        merged: dict[int, Any] = dict(answers)
        for (_, places), part in zip(parts, found, strict=True):
            merged.update(zip(places, part, strict=True))
        return settle([merged[place] for place in range(len(commands))], raise_on_error)

    async def _connect(self) -> None:
        try:
            # However many nodes it has to try, no longer than one is waited for.
            async with asyncio.timeout(self._timeout):
                await self._initialize()
        except FAILURES as error:
            raise RedisConnectionError(f"the cluster does not answer: {type(error).__name__}: {error}") from error

    async def _initialize(self) -> None:
        """redis-py asks the first primary which commands there are. If just that one is away, another is the first next time."""
        asked: set[str] = set()
        while True:
            try:
                await self._client.initialize()
            except RedisError:
                first = self._client.get_primaries()[:1]
                if not first or first[0].name in asked:
                    raise
                asked.add(first[0].name)
                self._client.nodes_manager.move_node_to_end_of_cached_nodes(first[0].name)
            else:
                return

    async def _ask_primaries(self, *command: Any) -> list[Any]:
        await self._connect()
        answers = await asyncio.gather(*(self._ask(node, [command]) for node in self._client.get_primaries()))
        found = [answer for [answer] in answers if not isinstance(answer, Exception)]
        if not found:
            raise RedisConnectionError("no primary of the cluster answers")
        return found

    async def _ask(self, node: Any, commands: Sequence[Command]) -> list[Any]:
        if not self._nodes.allow(node.name):
            return [NodeAwayError(f"{node.name} was away a moment ago")] * len(commands)
        pipeline = self._client.pipeline()
        for command in commands:
            pipeline.execute_command(*command, target_nodes=node)
        try:
            answers = await pipeline.execute(raise_on_error=False)
        except RedisClusterException as error:
            answers = [RedisConnectionError(str(error))] * len(commands)
        except (RedisError, OSError) as error:
            answers = [error] * len(commands)
        judged = self._nodes.judge(node.name, answers)
        if self._nodes.any_away:
            self._read_slots()
        return judged

    def _read_slots(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._follow(), name="redis-slots")

    async def _follow(self) -> None:
        """Reads who has which slot, until all answer who have some."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._client.nodes_manager.initialize()
            except RedisClusterException:
                # Nobody is left whom we knew: begin again with the addresses that were given, whose names may lead elsewhere.
                old, self._client = self._client, self._make()
                with suppress(*FAILURES):
                    await old.aclose()
            except FAILURES as error:
                log.info("redis.slots_unread", error=f"{type(error).__name__}: {error}")
            self._nodes.keep(node.name for node in self._client.get_primaries())
            if not self._nodes.any_away:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
