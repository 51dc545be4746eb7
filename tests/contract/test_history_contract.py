"""The scripts of the history cache give the same results on Redis and on the simulation's fake."""

import time
from typing import Any
from uuid import UUID, uuid4

import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.support.fakes.lock import FakeRedis
from tests.support.stacks.stack import Stack
from turnstile.memory.history import APPEND, LOAD, STORE

LONG_MS = 600_000
LIMIT = 4

versions = st.integers(1, 4)
said = st.lists(st.sampled_from(["a", "b\n[]"]), min_size=1, max_size=3)
loads = st.tuples(st.just("load"), versions, st.integers(1, 5))
stores = st.tuples(st.just("store"), versions, said)
appends = st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 2), said)
commands = st.lists(st.one_of(loads, stores, appends, st.just(("flush",))), max_size=12)


def claim_of(version: int) -> str:
    return UUID(int=version).hex if version else "-"


def words_of(command: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Script and arguments."""
    match command:
        case ("load", version, limit):
            return LOAD, (version, claim_of(version), limit)
        case ("store", version, elements):
            return STORE, (version, LONG_MS, f"{version} {claim_of(version)} whole", *elements)
        case ("append", before, step, elements):
            after = before + step
            return APPEND, (claim_of(before), after, claim_of(after), LONG_MS, LIMIT, *elements)
    raise AssertionError(command)


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(asked=commands)
def test_the_fake_does_what_redis_does(stack: Stack, asked: list[tuple[Any, ...]]) -> None:
    entry = f"{uuid4().hex}:history"
    with redis.Redis.from_url(stack.redis.url, decode_responses=True) as real:
        fake = FakeRedis(time.monotonic)
        for command in asked:
            if command == ("flush",):
                real.delete(entry)
                fake.flush()
                continue
            script, arguments = words_of(command)
            assert fake.eval(script, (entry,), arguments) == real.eval(script, 1, entry, *arguments)
            assert fake.elements(entry) == real.lrange(entry, 0, -1)
            assert abs(fake.pttl(entry) - real.pttl(entry)) < LONG_MS / 2
        real.delete(entry)
