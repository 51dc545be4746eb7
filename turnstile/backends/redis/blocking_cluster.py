"""A Redis Cluster for a thread: `backends.redis.cluster` without the event loop, and pipelines only.

However many nodes it has, a batch takes no longer than a few time-outs: behind it the heartbeat has leases to renew. So the nodes
are asked side by side, and who has which slot is found out on a thread that is waited for only so long. redis-py goes through
all nodes that it knows, replicas too, one time-out each: with seven shards that drop packets that alone ate half a lease.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import redis
import redis.cluster
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import AskError, MovedError, RedisClusterException, RedisError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from turnstile.backends.redis.batch import FAILURES, Batch, Command, NodeAwayError, Nodes, settle, split

_MOVED = (MovedError, AskError, TryAgainError)

log = structlog.get_logger("turnstile.redis")


class BlockingCluster:
    """Connects when it is first used; raises RedisError or OSError if no node at all answers."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], timeout_seconds: float, options: Mapping[str, Any]
    ) -> None:
        self._addresses = addresses
        # One to connect and one to be answered: a node that needs more has failed by its own time-outs.
        self._patience = 2 * timeout_seconds
        self._options = options
        self._client: Any = None
        self._making: Future[Any] | None = None
        self._reading: Future[Any] | None = None
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
        self._learn()
        self._connect()
        until = time.monotonic() + self._patience
        answers = self._run(commands, until)
        moved = [place for place, answer in enumerate(answers) if isinstance(answer, _MOVED)]
        away = self._nodes.any_away or any(isinstance(answer, NodeAwayError) for answer in answers)
        if (moved or away) and self._read_slots(until) and moved:
            self._connect()
            for place, answer in zip(moved, self._run([commands[place] for place in moved], until), strict=True):
                answers[place] = answer
        # A slot that is just moving may be asked for at both nodes in vain: the next beat asks again.
        return settle(
            [NodeAwayError(str(answer)) if isinstance(answer, _MOVED) else answer for answer in answers], raise_on_error
        )

    def _run(self, commands: Sequence[Command], until: float) -> list[Any]:
        groups, nowhere = split(self._client, commands)
        merged: dict[int, Any] = dict(nowhere)
        asked: list[tuple[str, list[int], Future[Any]]] = []
        for node, places in groups.values():
            if self._nodes.allow(node.name):
                call = partial(_ask, self._client, node, [commands[place] for place in places])
                asked.append((node.name, places, _aside(call)))
            else:
                away = NodeAwayError(f"{node.name} was away a moment ago")
                merged.update((place, away) for place in places)
        for name, places, answering in asked:
            try:
                answers = _result(answering, until)
            except (RedisError, OSError) as error:
                answers = [error] * len(places)
            merged.update(zip(places, self._nodes.judge(name, answers), strict=True))
        return [merged[place] for place in range(len(commands))]

    def _connect(self) -> None:
        if self._client is not None:
            return
        self._making = self._making or _aside(self._make)
        try:
            self._client = _result(self._making, time.monotonic() + self._patience)
        except FAILURES as error:
            raise RedisConnectionError(f"the cluster does not answer: {type(error).__name__}: {error}") from error
        finally:
            # What is still under way may be done at the next beat.
            if self._making.done():
                self._making = None

    def _make(self) -> Any:
        node: Any = redis.cluster.ClusterNode
        return redis.RedisCluster(
            startup_nodes=[node(host, port) for host, port in self._addresses],
            require_full_coverage=False,
            reinitialize_steps=0,
            # Of this call only, which asks one primary which commands there are: another, if just that one is away.
            **{**self._options, "retry": Retry(NoBackoff(), 2)},
        )

    def _read_slots(self, until: float) -> bool:
        """Whether who has which slot has been read by then. If not, it goes on, and the next batch learns of it."""
        self._reading = self._reading or _aside(self._client.nodes_manager.initialize)
        try:
            _result(self._reading, until)
        except FAILURES:
            if not self._reading.done():
                return False
        self._learn()
        return True

    def _learn(self) -> None:
        if self._reading is None or not self._reading.done():
            return
        reading, self._reading = self._reading, None
        try:
            reading.result()
        except RedisClusterException:
            # Begin again with the addresses that were given, whose names may lead elsewhere by now.
            self._client.close()
            self._client = None
            return
        except FAILURES as error:
            log.info("redis.slots_unread", error=f"{type(error).__name__}: {error}")
        self._nodes.keep(node.name for node in self._client.get_primaries())


def _ask(client: Any, node: Any, commands: Sequence[Command]) -> Any:
    pipeline = client.get_redis_connection(node).pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    return pipeline.execute(raise_on_error=False)


def _aside(call: Callable[[], Any]) -> Future[Any]:
    """Makes the call on a thread of its own, which nobody has to wait for, not even the process's end."""
    answer: Future[Any] = Future()

    def carry_out() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=carry_out, name="redis-cluster", daemon=True).start()
    return answer


def _result(answer: Future[Any], until: float) -> Any:
    """What the call returned or raised; TimeoutError, which is an OSError, if there is nothing by then."""
    return answer.result(max(0.0, until - time.monotonic()))
