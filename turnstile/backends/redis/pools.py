"""redis-py's pools, with five changes; the connections of a cluster's nodes lie in no pool, and have none of them.

A connection that has lain idle for a minute is closed: redis-py would keep what a busy moment took for good. Closed, not
forgotten: it stays in its pool and connects again when it is next taken.

Commands are packed by hiredis, as redis-py's blocking client has it. Its asyncio client packs in Python, 20 µs a command.

A connection that the server has closed is not handed out. With its maintenance notifications, which it turns on by itself,
redis-py 8.1 takes the end of a connection for one of them, and the next command fails: after a restart one for each idle
connection, and each opens a circuit.

Sending is bounded without a task of its own. redis-py uses `asyncio.wait_for`, and Python 3.11's loses a cancellation that meets
the end of what it waits for: a handler that was told to stop would go on.

What has come already is read without a timer. redis-py sets one for each answer of a pipeline, though they come together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, partial
from typing import Any

import hiredis
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.asyncio import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.maint_notifications import MaintNotificationsConfig

IDLE_SECONDS = 60.0


@cache
def frugal(pool: type[ConnectionPool]) -> Any:
    """The same kind of pool, with all five."""
    base: Any = pool

    class Frugal(base):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None
        _closing: asyncio.Task[None] | None = None

        def __init__(self, *arguments: Any, **options: Any) -> None:
            quiet = MaintNotificationsConfig(enabled=False)
            super().__init__(*arguments, **{"maint_notifications_config": quiet, **options})

        def make_connection(self) -> Any:
            connection = super().make_connection()
            connection.pack_command = _pack
            connection.send_packed_command = partial(_send, connection)
            connection.read_response = partial(_read, connection, connection.read_response)
            return connection

        async def release(self, connection: Any) -> None:
            await super().release(connection)
            loop = asyncio.get_running_loop()
            connection.idle_since = loop.time()
            if self._timer is None:
                # Not a task that sleeps: nobody would be there to cancel it.
                self._timer = loop.call_later(IDLE_SECONDS, self._look)

        def _look(self) -> None:
            self._timer = None
            self._closing = asyncio.get_running_loop().create_task(self._close_idle())

        async def _close_idle(self) -> None:
            loop = asyncio.get_running_loop()
            lying = [one for one in self._get_free_connections() if one.is_connected]
            for one in lying:
                # The last look and the end are one step of the loop: nobody waits for the end, or could take it in between.
                if loop.time() - one.idle_since >= IDLE_SECONDS and one in self._get_free_connections():
                    await one.disconnect(nowait=True)
            if lying and self._timer is None:
                self._timer = loop.call_later(IDLE_SECONDS, self._look)

    return Frugal


def pack(*words: Any) -> bytes:
    """One command. Raises DataError for what can't be said to Redis."""
    try:
        packed: bytes = hiredis.pack_command(words)
    except TypeError as error:
        raise DataError(str(error)) from error
    return packed


def _pack(name: str | bytes, *arguments: Any) -> list[bytes]:
    # A name may be several words, as in CLIENT SETINFO; Redis wants them apart.
    return [pack(*(name.encode().split() if isinstance(name, str) else name.split()), *arguments)]


async def _send(connection: Any, command: bytes | Iterable[bytes], check_health: bool = True) -> None:
    if not connection.is_connected:
        await connection.connect_check_health(check_health=False)
    if check_health:
        await connection.check_health()
    writer = connection._writer  # noqa: SLF001 - there is no other way to what is written to
    try:
        writer.writelines([command] if isinstance(command, bytes) else command)
        if writer.transport.get_write_buffer_size():
            # More than the socket takes. A timer for each command that it takes at once would cost as much as the command.
            async with asyncio.timeout(connection.socket_timeout):
                await writer.drain()
    except BaseException as error:
        # Half a command may be on its way: the connection is of no more use.
        await connection.disconnect(nowait=True)
        if isinstance(error, TimeoutError):
            raise RedisTimeoutError("not sent in time") from error
        if isinstance(error, OSError):
            raise RedisConnectionError(f"not sent: {error}") from error
        raise


async def _read(connection: Any, wait: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    # Whoever subscribes asks with options, and takes what comes between the answers too.
    if arguments or options or not connection.is_connected:
        return await wait(*arguments, **options)
    answer = connection._parser._reader.gets()  # noqa: SLF001 - as above
    if answer is NOT_ENOUGH_DATA:
        return await wait()
    if isinstance(answer, RedisConnectionError):
        await connection.disconnect(nowait=True)
    if isinstance(answer, RedisError):
        raise answer
    return answer


async def read_answers(connection: Any, count: int) -> list[Any]:
    """The next answers, refusals among them: what comes together is taken without a call for each."""
    answers: list[Any] = []
    reader = connection._parser._reader  # noqa: SLF001 - as above
    while len(answers) < count:
        answer = reader.gets()
        if answer is NOT_ENOUGH_DATA:
            try:
                answer = await connection.read_response()
            except ResponseError as error:
                answer = error
        elif isinstance(answer, RedisConnectionError):
            await connection.disconnect(nowait=True)
            raise answer
        answers.append(answer)
    return answers
