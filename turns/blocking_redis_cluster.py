"""A Redis Cluster for a thread: `turns.redis_cluster` without the event loop, and pipelines only."""

from collections.abc import Mapping, Sequence
from typing import Any

import redis
import redis.cluster
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import AskError, MovedError, RedisClusterException, RedisError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from turns.redis_batch import FAILURES, Batch, Command, NodeAwayError, Nodes, settle, split

log = structlog.get_logger("turnstile.redis")


class BlockingCluster:
    """Connects when it is first used; raises RedisError or OSError if no node at all answers."""

    def __init__(self, addresses: Sequence[tuple[str, int]], options: Mapping[str, Any]) -> None:
        self._addresses = addresses
        self._options = options
        self._client: Any = None
        self._nodes = Nodes()

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()

    def pipeline(self, *, transaction: bool) -> Batch:
        """A batch. `transaction` is False: there is no MULTI over several nodes."""
        if transaction:
            raise ValueError("a cluster has no transactions over several sessions")
        return Batch(self)

    def run(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        """The answers in the order of the commands; those of a node that does not answer are NodeAwayErrors."""
        answers = self._run(commands)
        moved = [
            place for place, answer in enumerate(answers) if isinstance(answer, (MovedError, AskError, TryAgainError))
        ]
        away = self._nodes.any_away or any(isinstance(answer, NodeAwayError) for answer in answers)
        if moved or away:
            self._read_slots()
        for place, answer in zip(moved, self._run([commands[place] for place in moved]), strict=True):
            # A slot that is just moving may be asked for at both nodes in vain: the next beat asks again.
            answers[place] = NodeAwayError(str(answer)) if isinstance(answer, (AskError, TryAgainError)) else answer
        return settle(answers, raise_on_error)

    def _run(self, commands: Sequence[Command]) -> list[Any]:
        if not commands:
            return []
        if self._client is None:
            self._client = self._make()
        groups, nowhere = split(self._client, commands)
        merged: dict[int, Any] = dict(nowhere)
        for node, places in groups.values():
            merged.update(zip(places, self._ask(node, [commands[place] for place in places]), strict=True))
        return [merged[place] for place in range(len(commands))]

    def _make(self) -> Any:
        node: Any = redis.cluster.ClusterNode
        startup = [node(host, port) for host, port in self._addresses]
        try:
            return redis.RedisCluster(
                startup_nodes=startup,
                require_full_coverage=False,
                reinitialize_steps=0,
                # Of this call only, which asks one primary which commands there are: another, if just that one is away.
                **{**self._options, "retry": Retry(NoBackoff(), 2)},
            )
        except FAILURES as error:
            raise RedisConnectionError(f"the cluster does not answer: {type(error).__name__}: {error}") from error

    def _ask(self, node: Any, commands: Sequence[Command]) -> list[Any]:
        if not self._nodes.allow(node.name):
            return [NodeAwayError(f"{node.name} was away a moment ago")] * len(commands)
        pipeline = self._client.get_redis_connection(node).pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            answers = pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            answers = [error] * len(commands)
        return self._nodes.judge(node.name, answers)

    def _read_slots(self) -> None:
        try:
            self._client.nodes_manager.initialize()
        except RedisClusterException:
            # Begin again with the addresses that were given, whose names may lead elsewhere by now.
            self._client.close()
            self._client = None
            return
        except FAILURES as error:
            log.info("redis.slots_unread", error=f"{type(error).__name__}: {error}")
        self._nodes.keep(node.name for node in self._client.get_primaries())
