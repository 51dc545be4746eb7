"""The interface to Redis, the same for one server and for a cluster.

`Server` uses redis-py's pool, with three choices:

- One timeout bounds a whole call. redis-py's own `socket_timeout` sets a timer for each response, and sends with
  `asyncio.wait_for`, which on Python 3.11 can lose a cancellation: a cancelled handler would go on.
- hiredis packs the commands. redis-py's asyncio client packs in Python, which takes 20 µs per command.
- redis-py's maintenance notifications are off. With them the pool of redis-py 8.1 returns connections that the server has
  closed, and after a restart each of them would fail a call.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import hiredis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

IDLE_SECONDS = 60.0
"""After this many seconds without a call, a server's idle connections are closed."""

Command = tuple[str | int | float, ...]
Send = Callable[[Sequence[Command]], Awaitable[list[Any]]]

OUTAGES = (RedisError, OSError)
"""The exceptions of a call when Redis does not respond."""

CODES: dict[type[Exception], str] = {OutOfMemoryError: "OOM", ReadOnlyError: "READONLY", NoPermissionError: "NOPERM"}
"""redis-py cuts Redis's code off the text of these. Operators and runbooks look for the code."""


class NodeAwayError(RedisError):
    """One node of a cluster does not respond, or no node has the key's slot. The other nodes may be healthy."""


def script(text: str, keys: Sequence[str], *arguments: str | int) -> Command:
    """An EVAL of a Lua script; all its keys belong to one session.

    EVAL, not EVALSHA: the server caches the compiled script either way, and there is no NOSCRIPT to handle.
    """
    return ("EVAL", text, len(keys), *keys, *arguments)


class RedisClient(ABC):
    """One server, the primary that sentinels name, or a cluster. It connects on first use."""

    @abstractmethod
    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Sends the commands together, without MULTI; returns their responses in the same order.

        For a command that was refused, or whose node is down, the response is a RedisError. Raises RedisError or OSError if no
        server responds; Redis may still have carried out some of the commands.
        """

    @abstractmethod
    async def primaries(self) -> list[Send]:
        """For each primary, a function that sends commands to it. Raises as `run`."""

    @abstractmethod
    def pubsub(self) -> Any:
        """A redis-py PubSub with a separate connection."""

    @abstractmethod
    def leave(self) -> None:
        """Closes idle connections in the background, so that the next call reconnects, perhaps to another server."""

    @abstractmethod
    async def aclose(self) -> None:
        """Closes all connections."""

    async def ping(self) -> bool:
        """Whether a primary responds. Raises as `run` if none does."""
        return bool(await self._ask_primaries("PING"))

    async def info(self) -> list[dict[str, str]]:
        """What INFO says of each primary that responds, under Redis's names. Raises as `run` if none does."""
        return [_read_info(text) for text in await self._ask_primaries("INFO")]

    async def scan(self, match: str) -> AsyncIterator[str]:
        """The keys on all primaries that match the pattern. Raises as `run` if one primary does not respond."""
        for send in await self.primaries():
            cursor = "0"
            while True:
                [answer] = raise_first(await send([("SCAN", cursor, "MATCH", match, "COUNT", 1000)]))
                cursor, keys = answer
                for key in keys:
                    yield key
                if cursor == "0":
                    break

    async def _ask_primaries(self, *command: str) -> list[Any]:
        answers = await asyncio.gather(*(send([command]) for send in await self.primaries()))
        found = [answer for [answer] in answers if not isinstance(answer, Exception)]
        if not found:
            raise RedisConnectionError("no primary answers")
        return found


class Server(RedisClient):
    """One server, or the primary that sentinels name. `timeout_seconds` bounds each call."""

    def __init__(self, pool: redis.asyncio.ConnectionPool, timeout_seconds: float) -> None:
        self._pool: Any = pool
        self._client = redis.asyncio.Redis.from_pool(pool)
        self._timeout_seconds = timeout_seconds
        self._used_at = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        # hiredis's annotation is wrong: it allows only a tuple of one element.
        packed = [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(self._timeout_seconds):
                connection = await self._pool.get_connection()
                try:
                    # redis-py closes a connection whose send or read breaks off. Otherwise the next call would read the
                    # responses that a cancelled call left unread.
                    await connection.send_packed_command(packed)
                    return [await _read_answer(connection) for _ in commands]
                finally:
                    await self._pool.release(connection)
                    self._note_use()
        except TimeoutError as error:
            raise RedisTimeoutError(f"no answer within {self._timeout_seconds:g} s") from error

    async def primaries(self) -> list[Send]:
        return [self.run]

    def pubsub(self) -> Any:
        return self._client.pubsub()

    def leave(self) -> None:
        leaving = asyncio.create_task(self._disconnect_idle())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _disconnect_idle(self) -> None:
        with suppress(*OUTAGES):
            await self._pool.disconnect(inuse_connections=False)

    async def aclose(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        await self._client.aclose()

    def _note_use(self) -> None:
        # redis-py never closes the connections that it opened in a busy moment.
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if self._idle is None:
            self._idle = loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        self._idle = None
        loop = asyncio.get_running_loop()
        left = self._used_at + IDLE_SECONDS - loop.time()
        if left > 0:
            self._idle = loop.call_later(left, self._look)
        else:
            self.leave()


async def _read_answer(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def raise_first(answers: list[Any]) -> list[Any]:
    """Returns the responses; raises the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def tell_refusal(error: Exception) -> str:
    """Redis's words for why it refused a command, with its code: `OOM command not allowed when used memory > 'maxmemory'.`

    Redis before version 7 wraps an error of a script: there the code is inside the text.
    """
    code = CODES.get(type(error), "")
    return f"{code} {error}" if code else str(error)


def _read_info(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
