"""The scripts of `memory.history`, as the stand-in for Redis carries them out."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnstile.memory.history import APPEND, LOAD, STORE

if TYPE_CHECKING:
    from tests.support.fakes.lock import FakeRedis

Words = tuple[Any, ...]


def _load(redis: "FakeRedis", keys: Words, args: Words) -> Any:
    (entry,) = keys
    seq, claim, limit = args
    elements = redis.elements(entry)
    if not elements:
        return 0
    seq_there, claim_there, _ = elements[0].split(" ")
    if claim_there == claim:
        return elements[: int(limit) + 1]
    return -1 if int(seq_there) > int(seq) else 0


def _store(redis: "FakeRedis", keys: Words, args: Words) -> int:
    (entry,) = keys
    seq, milliseconds, *elements = args
    there = redis.elements(entry)
    if there and int(there[0].split(" ")[0]) > int(seq):
        return 0
    redis.put_elements(entry, elements, milliseconds)
    return 1


def _append(redis: "FakeRedis", keys: Words, args: Words) -> int:
    (entry,) = keys
    before, seq, after, milliseconds, limit, reach, *said = args
    elements = redis.elements(entry)
    if elements:
        _, claim, reached = elements[0].split(" ")
        if claim == after:
            return 1
        if claim != before:
            redis.delete(entry)
            return 0
        reach = "tail" if reached == "tail" else reach
    elif before != "-":
        return 0
    kept = [*reversed(said), *elements[1:]]
    if len(kept) > int(limit):
        kept, reach = kept[: int(limit)], "tail"
    redis.put_elements(entry, [f"{seq} {after} {reach}", *kept], milliseconds)
    return 1


SCRIPTS: dict[str, Callable[["FakeRedis", Words, Words], Any]] = {LOAD: _load, STORE: _store, APPEND: _append}
