"""A Redis Cluster. Each command goes to the node that has its key, and one node's failure fails that node's commands only.

redis-py's cluster client knows which node has which slot, and follows a slot that moves. But its pipeline fails as a whole where
one node refuses the connection, and without retries it never looks for the node that has taken over. So a batch is split by node
here, and each part is a pipeline of its own. A node that does not answer is left alone for a while, and meanwhile the slots are
read anew.

All keys of a session share a hash tag, so no script needs two nodes. A message published on one node is heard on all nodes.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import redis.asyncio
import redis.asyncio.cluster
import structlog
from redis.exceptions import ClusterDownError, RedisClusterException, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.client import Command, NodeAwayError, RedisClient, Send

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0

_NODE_OUTAGES = (RedisConnectionError, RedisTimeoutError, OSError, ClusterDownError)
# redis-py raises the last one for a cluster in which no node has any slots.
_FAILURES = (RedisError, RedisClusterException, OSError, IndexError)

log = structlog.get_logger("turnstile.redis")


class Cluster(RedisClient):
    """All nodes of one cluster."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], timeout_seconds: float, options: Mapping[str, Any]
    ) -> None:
        self._addresses = addresses
        self._timeout_seconds = timeout_seconds
        self._options = options
        self._client = self._make()
        self._circuits: dict[str, Circuit] = {}
        """Of the nodes that do not answer at present."""
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        self._subscriptions = secrets.randbelow(1000)

    def _make(self) -> Any:
        startup = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in self._addresses]
        # A part of the slots is better than none. `reinitialize_steps` would close all connections on a moved slot.
        client: Any = redis.asyncio.RedisCluster(
            startup_nodes=startup, require_full_coverage=False, reinitialize_steps=0, **self._options
        )
        for command in ("SCAN", "XRANGE", "INFO"):
            # As the server sends them, like those of `client.Server`.
            client.set_response_callback(command, lambda answer, **_: answer)
        return client

    async def aclose(self) -> None:
        # redis-py may lose the cancellation: it sends with `asyncio.wait_for`.
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._client.aclose()

    def leave(self) -> None:
        """Nothing: a node that was demoted says which node has the slot, and redis-py follows."""

    def pubsub(self) -> Any:
        # On another node each time: every node hears what is published on any.
        nodes = [(node.host, node.port) for node in self._client.get_nodes()] or list(self._addresses)
        self._subscriptions += 1
        host, port = nodes[self._subscriptions % len(nodes)]
        # Without a time-out for each answer: whoever listens bounds the calls.
        options = {**self._options, "socket_timeout": None}
        return redis.asyncio.Redis(host=host, port=port, **options).pubsub()

    async def primaries(self) -> list[Send]:
        await self._connect()
        return [partial(self._ask, node) for node in self._client.get_primaries()]

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        await self._connect()
        answers: dict[int, Any] = {}
        parts: dict[str, tuple[Any, list[int]]] = {}
        for place, command in enumerate(commands):
            try:
                node = self._client.get_node_from_key(_key(command))
            except RedisClusterException as error:
                answers[place] = NodeAwayError(str(error))
                self._read_slots()
            else:
                parts.setdefault(node.name, (node, []))[1].append(place)
        found = await asyncio.gather(
            *(self._ask(node, [commands[place] for place in places]) for node, places in parts.values())
        )
        for (_, places), part in zip(parts.values(), found, strict=True):
            answers.update(zip(places, part, strict=True))
        return [answers[place] for place in range(len(commands))]

    async def _connect(self) -> None:
        try:
            # However many nodes it tries, it takes no longer than one call.
            async with asyncio.timeout(self._timeout_seconds):
                await self._initialize()
        except _FAILURES as error:
            raise RedisConnectionError(f"the cluster does not answer: {type(error).__name__}: {error}") from error

    async def _initialize(self) -> None:
        """redis-py asks the first primary for the list of commands. If that one is away, another comes first the next time."""
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

    async def _ask(self, node: Any, commands: Sequence[Command]) -> list[Any]:
        """One node's answers; NodeAwayErrors if it does not answer."""
        circuit = self._circuits.get(node.name)
        if circuit is not None and not circuit.allows(time.monotonic()):
            return [NodeAwayError(f"{node.name} was away a moment ago")] * len(commands)
        pipeline = self._client.pipeline()
        for command in commands:
            pipeline.execute_command(*command, target_nodes=node)
        try:
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        except RedisClusterException as error:
            answers = [RedisConnectionError(str(error))] * len(commands)
        except (RedisError, OSError) as error:
            answers = [error] * len(commands)
        away = next((answer for answer in answers if isinstance(answer, _NODE_OUTAGES)), None)
        if away is not None:
            self._note_outage(node.name, away, len(commands))
        elif self._circuits.pop(node.name, None) is not None:
            log.info("redis.node_back", node=node.name)
        return [NodeAwayError(f"{node.name}: {one}") if isinstance(one, _NODE_OUTAGES) else one for one in answers]

    def _note_outage(self, name: str, error: Exception, commands: int) -> None:
        if name not in self._circuits:
            log.warning("redis.node_away", node=name, error=f"{type(error).__name__}: {error}", commands=commands)
        self._circuits.setdefault(name, Circuit()).failed(time.monotonic())
        self._read_slots()

    def _read_slots(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._follow_slots(), name="redis-slots")

    async def _follow_slots(self) -> None:
        """Reads which node has which slot, until every node that has some answers."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._client.nodes_manager.initialize()
            except RedisClusterException:
                # No known node is left: begin again with the configured addresses, whose names may resolve to others by now.
                old, self._client = self._client, self._make()
                with suppress(*_FAILURES):
                    await old.aclose()
            except _FAILURES as error:
                log.info("redis.slots_unread", error=f"{type(error).__name__}: {error}")
            names = {node.name for node in self._client.get_primaries()}
            self._circuits = {name: circuit for name, circuit in self._circuits.items() if name in names}
            if self._closed or not self._circuits:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _key(command: Command) -> str:
    return str(command[3] if command[0] == "EVAL" else command[1])
