"""How commands to Redis are packed and answers read: by hiredis on every way of connecting, and as redis-py itself would."""

import asyncio
from typing import Any

import hiredis
import pytest
import redis.asyncio
from redis._parsers.hiredis import NOT_ENOUGH_DATA, _AsyncHiredisParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.support.probes import let_the_loop_turn
from turnstile.backends.redis import pools as redis_pools
from turnstile.backends.redis.connect import connect

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
        self._writer = self.transport = self

    def get_write_buffer_size(self) -> int:
        return 1

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


class Answered:
    """A connection to which these bytes have come; `waits` counts who was left to wait for more."""

    is_connected = True

    def __init__(self, received: bytes) -> None:
        reader = hiredis.Reader(replyError=_AsyncHiredisParser.parse_error, notEnoughData=NOT_ENOUGH_DATA)
        reader.feed(received)
        self._parser = type("Parser", (), {"_reader": reader})
        self.waits = 0
        self.disconnected = False

    async def read(self, **options: Any) -> Any:
        return await redis_pools._read(self, self._wait, **options)

    async def read_response(self) -> Any:
        return await self.read()

    async def _wait(self, **_: Any) -> str:
        self.waits += 1
        return "waited for"

    async def disconnect(self, *, nowait: bool) -> None:
        self.disconnected = nowait


async def test_answers_that_came_together_are_read_without_waiting() -> None:
    connection = Answered(b":1\r\n$2\r\nab\r\n*1\r\n:0\r\n$-1\r\n")

    assert [await connection.read() for _ in range(4)] == [1, b"ab", [0], None]
    assert connection.waits == 0


@pytest.mark.parametrize("received", [b"", b"$5\r\nhal"], ids=["nothing", "half of it"])
async def test_an_answer_that_is_not_there_yet_is_waited_for(received: bytes) -> None:
    connection = Answered(received)

    assert await connection.read() == "waited for"


async def test_a_refused_command_fails_alone() -> None:
    connection = Answered(b"-ERR no such thing\r\n:2\r\n")

    with pytest.raises(ResponseError, match="no such thing"):
        await connection.read()

    assert await connection.read() == 2
    assert not connection.disconnected


async def test_an_answer_that_means_the_end_of_the_connection_ends_it() -> None:
    connection = Answered(b"-ERR max number of clients reached\r\n")

    with pytest.raises(RedisConnectionError):
        await connection.read()

    assert connection.disconnected


async def test_the_answers_of_a_batch_are_taken_as_far_as_they_have_come_and_the_rest_is_waited_for() -> None:
    connection = Answered(b":1\r\n-ERR no such thing\r\n$5\r\nhal")

    first, refused, last = await redis_pools.read_answers(connection, 3)

    assert (first, last) == (1, "waited for")
    assert isinstance(refused, ResponseError)
    assert connection.waits == 1


async def test_an_answer_within_a_batch_that_means_the_end_of_the_connection_ends_it() -> None:
    connection = Answered(b":1\r\n-ERR max number of clients reached\r\n:2\r\n")

    with pytest.raises(RedisConnectionError):
        await redis_pools.read_answers(connection, 3)

    assert connection.disconnected


async def test_who_asks_for_more_than_an_answer_is_served_by_redis_py() -> None:
    connection = Answered(b":1\r\n")

    assert await connection.read(push_request=True) == "waited for"


@pytest.mark.parametrize("url", ["redis://localhost/0", "redis+sentinel://localhost:1/name/0"])
def test_every_way_of_connecting_reads_so(url: str) -> None:
    connection = connect(url, 1.0).connection_pool.make_connection()

    assert connection.read_response.func is redis_pools._read
