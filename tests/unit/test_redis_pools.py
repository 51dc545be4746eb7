"""How commands to Redis are packed: by hiredis on every way of connecting, and as redis-py itself would."""

import asyncio
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.probes import let_the_loop_turn
from turns import redis_pools
from turns.redis_connections import connect

COMMANDS: list[tuple[Any, ...]] = [
    ("PING",),
    ("CLIENT SETINFO", "LIB-NAME", "redis-py"),
    ("SET", "key", b"\x00\xff", "PX", 30_000),
    ("ZADD", "key", 0.1, "é 漢 🎉"),
    (b"EVAL", "", 0),
]


@pytest.mark.parametrize("url", ["redis://localhost/0", "redis+sentinel://localhost:1/name/0"])
@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_a_command_is_packed_as_redis_py_does_it(url: str, most: int | None, command: tuple[Any, ...]) -> None:
    pool: Any = connect(url, 1.0, max_connections=most).connection_pool
    theirs = b"".join(redis.asyncio.Connection().pack_command(*command))

    assert b"".join(pool.make_connection().pack_command(*command)) == theirs


@pytest.mark.parametrize("url", ["redis://localhost/0", "redis+sentinel://localhost:1/name/0"])
@pytest.mark.parametrize("most", [None, 4])
def test_it_is_hiredis_that_packs(url: str, most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_pools.hiredis, "pack_command", lambda words: b"packed %d" % len(words))
    pool: Any = connect(url, 1.0, max_connections=most).connection_pool

    assert pool.make_connection().pack_command("SET", "key", "value") == [b"packed 3"]


def test_what_cannot_be_packed_is_redis_pys_own_error() -> None:
    pool: Any = connect("redis://localhost/0", 1.0).connection_pool

    with pytest.raises(DataError):
        pool.make_connection().pack_command("SET", "key", {"no": "text"})


class Stuck:
    """A connection that takes no byte more."""

    is_connected = True
    socket_timeout = 0.01

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.disconnected = False
        self._writer = self

    def writelines(self, _: object) -> None:
        """As a StreamWriter has it."""

    async def drain(self) -> None:
        """Never done, or broken."""
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    async def check_health(self) -> None:
        """Nothing to check."""

    async def disconnect(self, *, nowait: bool) -> None:
        self.disconnected = nowait


async def test_what_can_not_be_sent_in_time_is_redis_pys_own_time_out() -> None:
    connection = Stuck()

    with pytest.raises(RedisTimeoutError):
        await redis_pools._send(connection, [b"PING"])

    assert connection.disconnected


async def test_a_connection_that_breaks_in_a_send_is_redis_pys_own_error() -> None:
    connection = Stuck(BrokenPipeError("gone"))

    with pytest.raises(RedisConnectionError):
        await redis_pools._send(connection, [b"PING"])

    assert connection.disconnected


async def test_a_send_that_is_cancelled_leaves_no_half_command_for_the_next() -> None:
    connection = Stuck()
    connection.socket_timeout = 60.0
    sending = asyncio.create_task(redis_pools._send(connection, [b"PING"]))
    await let_the_loop_turn(2)

    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    assert connection.disconnected
