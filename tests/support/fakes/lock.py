"""A stand-in for Redis under the real `worker.session_lock` and `memory.history`: scripts, time to live, flush.

The client runs the product's scripts, so the real batching, circuit and handling of lost responses run on top of it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.support.fakes import history
from tests.support.fakes.carry import Carry, at_once
from turnstile.backends.redis.redis_client import Command, RedisClient, Send
from turnstile.worker.session_lock import ACQUIRE, EXTEND, FOREIGN_LEASES, RELEASE

Recorder = Callable[[str, tuple[str, ...]], None]
"""Takes the source (`lua` for what a script does, as MONITOR shows it) and the words of a command."""


class FakeRedis:
    """The server: strings, and lists, with a time to live. `now` gives seconds."""

    def __init__(self, now: Callable[[], float], record: Recorder | None = None) -> None:
        self._now = now
        self._record = record
        self._values: dict[str, Any] = {}
        self._ends: dict[str, float] = {}

    # --- commands

    def get(self, key: str) -> str | None:
        self._note("GET", key)
        return self._values[key] if self._lives(key) else None

    def set(self, key: str, value: str, milliseconds: int, *, if_absent: bool = False) -> bool:
        self._note("SET", key, value, *(("NX",) if if_absent else ()), "PX", str(milliseconds))
        if if_absent and self._lives(key):
            return False
        self._values[key] = value
        self._ends[key] = self._now() + milliseconds / 1000
        return True

    def pexpire(self, key: str, milliseconds: int) -> int:
        self._note("PEXPIRE", key, str(milliseconds))
        if not self._lives(key):
            return 0
        self._ends[key] = self._now() + milliseconds / 1000
        return 1

    def delete(self, key: str) -> int:
        self._note("DEL", key)
        if not self._lives(key):
            return 0
        del self._values[key], self._ends[key]
        return 1

    def elements(self, key: str) -> list[str]:
        return list(self._values[key]) if self._lives(key) else []

    def put_elements(self, key: str, elements: Iterable[str], milliseconds: int) -> None:
        """A list in place of whatever was there. PEXPIRE"""
        self._values[key] = list(elements)
        self._ends[key] = self._now() + milliseconds / 1000

    def pttl(self, key: str) -> int:
        return int((self._ends[key] - self._now()) * 1000) if self._lives(key) else -2

    def keys(self) -> list[str]:
        return [key for key in list(self._values) if self._lives(key)]

    def flush(self) -> None:
        """FLUSHALL: also what a failover without its last writes, or an eviction, amounts to."""
        self._note("FLUSHALL", source="client")
        self._values.clear()
        self._ends.clear()

    def eval(self, script: str, keys: tuple[str, ...], args: tuple[Any, ...]) -> Any:
        """EVAL of one of the product's scripts; an unknown one was changed in the product and not here."""
        self._note("EVAL", "", str(len(keys)), *keys, *map(str, args), source="client")
        return SCRIPTS[script](self, keys, args)

    def _lives(self, key: str) -> bool:
        ends = self._ends.get(key)
        if ends is None:
            return False
        if ends > self._now():
            return True
        del self._values[key], self._ends[key]
        return False

    def _note(self, *words: str, source: str = "lua") -> None:
        if self._record is not None:
            self._record(source, words)


def _acquire(redis: FakeRedis, keys: tuple[str, ...], args: tuple[Any, ...]) -> int:
    key, waiting = keys
    token, milliseconds = args
    if redis.set(key, token, milliseconds, if_absent=True):
        return 1
    if redis.get(key) == token:
        redis.pexpire(key, milliseconds)
        return 1
    redis.set(waiting, "1", milliseconds)
    return 2 if redis.pttl(key) > FOREIGN_LEASES * milliseconds else 0


def _release(redis: FakeRedis, keys: tuple[str, ...], args: tuple[Any, ...]) -> int:
    key, waiting = keys
    token, milliseconds = args
    if redis.get(key) != token:
        return -1
    if redis.delete(waiting):
        redis.pexpire(key, milliseconds)
        return 1
    redis.delete(key)
    return 0


def _extend(redis: FakeRedis, keys: tuple[str, ...], args: tuple[Any, ...]) -> int:
    key, _ = keys
    token, milliseconds = args
    holder = redis.get(key)
    if holder == token:
        return redis.pexpire(key, milliseconds)
    return 2 if holder is None else 0


SCRIPTS: dict[str, Callable[[FakeRedis, tuple[str, ...], tuple[Any, ...]], Any]] = {
    **history.SCRIPTS,
    ACQUIRE: _acquire,
    RELEASE: _release,
    EXTEND: _extend,
}


class FakeRedisClient(RedisClient):
    def __init__(self, server: FakeRedis, carry: Carry = at_once) -> None:
        self._server = server
        self._carry = carry

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        answers: list[Any] = await self._carry(lambda: [self._answer(*command) for command in commands])
        return answers

    def _answer(self, name: str | float, *words: Any) -> Any:
        if name == "PING":
            return True
        script, keys, *rest = words
        return self._server.eval(script, tuple(rest[:keys]), tuple(rest[keys:]))

    async def primaries(self) -> list[Send]:
        return [self.run]

    def pubsub(self) -> Any:
        raise AssertionError("no subscription is expected here")

    def leave(self) -> None:
        """There is no other server."""

    async def aclose(self) -> None:
        """Nothing is open."""
