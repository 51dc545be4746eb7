"""Commands for a Redis Cluster that are sent together: split by node, each answered or failed by itself. No I/O.

A node that does not answer is left alone for a while, and only it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from redis.exceptions import ClusterDownError, RedisClusterException, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turnstile.backends.circuit_breaker import Circuit

Command = tuple[Any, ...]
_OUTAGES = (RedisConnectionError, RedisTimeoutError, OSError, ClusterDownError)
# The last is what redis-py raises of a cluster in which nobody has any slots.
FAILURES = (RedisError, RedisClusterException, OSError, IndexError)
_FULLEST = ("used_memory", "maxmemory")
_SUMS = (
    "connected_clients",
    "total_commands_processed",
    "keyspace_hits",
    "keyspace_misses",
    "evicted_keys",
    "expired_keys",
)

log = structlog.get_logger("turnstile.redis")


class NodeAwayError(RedisError):
    """The node that has this key does not answer, or nobody has it at present. Of other keys that says nothing."""


class Runner(Protocol):
    """What carries a batch out; the blocking one answers at once, the other with something to await."""

    def run(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> Any:
        """The answers in the order of the commands."""


class Batch:
    """Commands that are sent together, like redis-py's pipeline without MULTI; each is answered or fails by itself."""

    def __init__(self, cluster: Runner) -> None:
        self._cluster = cluster
        self._commands: list[Command] = []

    def eval(self, script: str, keys: int, *arguments: Any) -> "Batch":
        """EVAL; all its keys are of one session."""
        return self._add("EVAL", script, keys, *arguments)

    def get(self, key: str) -> "Batch":
        """GET"""
        return self._add("GET", key)

    def pttl(self, key: str) -> "Batch":
        """PTTL"""
        return self._add("PTTL", key)

    def xrange(self, key: str, low: str, high: str, count: int) -> "Batch":
        """XRANGE"""
        return self._add("XRANGE", key, low, high, "COUNT", count)

    def publish(self, channel: str, word: str) -> "Batch":
        """PUBLISH; to the node that would have a key of the channel's name, so that no node has to carry all."""
        return self._add("PUBLISH", channel, word)

    def execute(self, raise_on_error: bool = True) -> Any:
        """The answers, errors among them; or raises the first error. To be awaited if the cluster's calls are."""
        commands, self._commands = self._commands, []
        return self._cluster.run(commands, raise_on_error=raise_on_error)

    def _add(self, *words: Any) -> "Batch":
        self._commands.append(words)
        return self


def _key(command: Command) -> str:
    return str(command[3] if command[0] == "EVAL" else command[1])


def settle(answers: list[Any], raise_on_error: bool) -> list[Any]:
    """The answers, or the first error among them."""
    if raise_on_error:
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
    return answers


class Nodes:
    """Which nodes of a cluster do not answer at present."""

    def __init__(self) -> None:
        self._circuits: dict[str, Circuit] = {}

    def allow(self, name: str) -> bool:
        """Whether to ask it now. Asking takes the one probe of the pause."""
        return name not in self._circuits or self._circuits[name].allows(time.monotonic())

    def judge(self, name: str, answers: Sequence[Any]) -> list[Any]:
        """The answers of a node, its failures as NodeAwayError."""
        away = next((answer for answer in answers if isinstance(answer, _OUTAGES)), None)
        if away is None:
            if self._circuits.pop(name, None) is not None:
                log.info("redis.node_back", node=name)
            return list(answers)
        if name not in self._circuits:
            log.warning("redis.node_away", node=name, error=f"{type(away).__name__}: {away}", commands=len(answers))
        self._circuits.setdefault(name, Circuit()).failed(time.monotonic())
        return [NodeAwayError(f"{name}: {one}") if isinstance(one, _OUTAGES) else one for one in answers]

    def keep(self, names: Iterable[str]) -> None:
        """Forgets those that have no slots any more."""
        kept = set(names)
        self._circuits = {name: circuit for name, circuit in self._circuits.items() if name in kept}

    @property
    def any_away(self) -> bool:
        """Whether there is reason to ask who has which slot."""
        return bool(self._circuits)


def split(client: Any, commands: Sequence[Command]) -> tuple[dict[str, tuple[Any, list[int]]], dict[int, Any]]:
    """By a node's name: the node and the places of its commands. And the answers of those that no node has the slot of."""
    groups: dict[str, tuple[Any, list[int]]] = {}
    nowhere: dict[int, Any] = {}
    for place, command in enumerate(commands):
        try:
            node = client.get_node_from_key(_key(command))
        except RedisClusterException as error:
            nowhere[place] = NodeAwayError(str(error))
        else:
            groups.setdefault(node.name, (node, []))[1].append(place)
    return groups, nowhere


def combine(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """INFO of all nodes as one: the memory of the fullest, because it is the first to run out; the sum of all else."""
    fullest = max(facts, key=lambda one: one.get("used_memory", 0) / (one.get("maxmemory") or float("inf")))
    # Managed ones do not tell everything.
    return {name: fullest.get(name, 0) for name in _FULLEST} | {
        name: sum(one.get(name, 0) for one in facts) for name in _SUMS
    }
