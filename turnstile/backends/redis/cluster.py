"""A Redis Cluster. Each command goes to the node that has its key, and the failure of a node affects only its own commands.

redis-py's cluster client knows which node has which slot, and follows a slot that moves. But its pipeline fails as a whole if one
node refuses the connection, and without retries it never looks for the node that has taken over. So this module splits a batch by
node and sends each part as a separate pipeline. A node that does not respond gets no commands for a while, and meanwhile the
slots are read again.

All keys of a session share a hash tag, so no script needs two nodes. A message published on one node reaches all nodes.
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
from redis.exceptions import ClusterDownError, RedisClusterException, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.redis_client import Command, NodeAwayError, RedisClient, Send
from turnstile.telemetry.own_log import log

_NODE_OUTAGES = (RedisConnectionError, RedisTimeoutError, OSError, ClusterDownError)
# redis-py raises IndexError for a cluster in which no node has any slots.
_FAILURES = (RedisError, RedisClusterException, OSError, IndexError)


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
        """The circuits, by node name, of the nodes that do not respond at present."""
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        self._subscriptions = secrets.randbelow(1000)

    def _make(self) -> Any:
        startup = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in self._addresses]
        # Partial coverage of the slots is better than none. `reinitialize_steps` would close all connections on a moved slot.
        client: Any = redis.asyncio.RedisCluster(
            startup_nodes=startup, require_full_coverage=False, reinitialize_steps=0, **self._options
        )
        for command in ("SCAN", "XRANGE", "INFO"):
            # Raw responses, like those of `client.Server`.
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
        """Does nothing: a demoted node redirects to the node that has the slot, and redis-py follows."""

    def pubsub(self) -> Any:
        # On another node each time: every node receives the messages published on any node.
        nodes = [(node.host, node.port) for node in self._client.get_nodes()] or list(self._addresses)
        self._subscriptions += 1
        host, port = nodes[self._subscriptions % len(nodes)]
        # Without a timeout per response: the subscriber bounds its calls.
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
            # All the nodes that it tries share the timeout of one call.
            async with asyncio.timeout(self._timeout_seconds):
                await self._initialize()
        except _FAILURES as error:
            raise RedisConnectionError(f"the cluster does not answer: {type(error).__name__}: {error}") from error

    async def _initialize(self) -> None:
        """Initializes redis-py, which reads the list of commands from the first primary. If that is down, tries the next one."""
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
        """The responses of one node; NodeAwayErrors if it does not respond."""
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
        if not self._closed and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._follow_slots(), name="redis-slots")

    async def _follow_slots(self) -> None:
        """Reads which node has which slot. Each failed probe of a circuit leads here again."""
        try:
            await self._client.nodes_manager.initialize()
        except RedisClusterException:
            # No known node is left: start again with the configured addresses, whose names may resolve to new nodes.
            old, self._client = self._client, self._make()
            with suppress(*_FAILURES):
                await old.aclose()
        except _FAILURES as error:
            log.info("redis.slots_unread", error=f"{type(error).__name__}: {error}")
        names = {node.name for node in self._client.get_primaries()}
        self._circuits = {name: circuit for name, circuit in self._circuits.items() if name in names}


def _key(command: Command) -> str:
    return str(command[3] if command[0] == "EVAL" else command[1])
