"""How a batch for a cluster is split, and which nodes are left alone."""

from dataclasses import dataclass
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError, SlotNotCoveredError

from turnstile.backends.redis.batch import Batch, Command, NodeAwayError, Nodes, combine, split


@dataclass(frozen=True, slots=True)
class Node:
    """All that is looked at of one."""

    name: str


class Client:
    """Keys that begin alike are of one node; those with an x nobody has."""

    def get_node_from_key(self, key: str) -> Node:
        """As redis-py's."""
        if key.startswith("x"):
            raise SlotNotCoveredError(key)
        return Node(key[0])


class Kept:
    """Carries nothing out."""

    def run(self, commands: list[Command], *, raise_on_error: bool = True) -> Any:
        """What it was given."""
        return commands


def test_commands_are_given_to_the_node_of_their_key() -> None:
    batch = Batch(Kept())
    batch.eval("return 1", 1, "a1", "word").get("b1").pttl("a2").xrange("x1", "-", "+", count=3).publish("b2", "word")

    groups, nowhere = split(Client(), batch.execute())

    assert {name: places for name, (_, places) in groups.items()} == {"a": [0, 2], "b": [1, 4]}
    assert {place: type(answer) for place, answer in nowhere.items()} == {3: NodeAwayError}


def test_a_batch_is_sent_once() -> None:
    batch = Batch(Kept())
    batch.get("a")

    assert (batch.execute(), batch.execute()) == ([("GET", "a")], [])


def test_a_node_that_does_not_answer_is_left_alone_and_the_others_are_not() -> None:
    nodes = Nodes()

    answers = nodes.judge("a", [RedisConnectionError("refused")] * 2)

    assert [type(answer) for answer in answers] == [NodeAwayError] * 2
    assert (nodes.allow("a"), nodes.allow("b"), nodes.any_away) == (False, True, True)


def test_a_node_that_refuses_a_command_is_there() -> None:
    nodes = Nodes()
    refused = ResponseError("OOM")

    assert nodes.judge("a", [1, refused]) == [1, refused]
    assert (nodes.allow("a"), nodes.any_away) == (True, False)


def test_a_node_that_answers_again_is_used_again() -> None:
    nodes = Nodes()
    nodes.judge("a", [RedisConnectionError("refused")])

    nodes.judge("a", [1])

    assert nodes.allow("a") is True


def test_a_node_that_has_no_slots_any_more_is_forgotten() -> None:
    nodes = Nodes()
    nodes.judge("a", [RedisConnectionError("refused")])

    nodes.keep(["b", "c"])

    assert nodes.any_away is False


def test_the_memory_of_several_is_that_of_the_fullest_and_the_rest_their_sum() -> None:
    counted = ("connected_clients", "total_commands_processed", "keyspace_hits", "keyspace_misses")
    one = dict.fromkeys((*counted, "evicted_keys", "expired_keys"), 2)

    both = combine([one | {"used_memory": 50, "maxmemory": 100}, one | {"used_memory": 90, "maxmemory": 0}])

    assert both == dict.fromkeys(one, 4) | {"used_memory": 50, "maxmemory": 100}


def test_of_several_that_do_not_tell_their_limit_no_limit_is_known() -> None:
    both = combine([{"used_memory": 50, "keyspace_hits": 2}, {"used_memory": 90}])

    assert (both["used_memory"], both["maxmemory"], both["keyspace_hits"], both["expired_keys"]) == (50, 0, 2, 0)
