"""Connections to Postgres, and what it means when one breaks.

Every hot step of Turnstile is a single autocommit statement, or two or three in a pipeline. What must look before it acts is a
transaction of several statements (a submit with a policy, a cancel, retry and skip); where its process
is stopped between two of them, `idle_in_transaction_session_timeout` ends it. A process that is stopped in its tracks between the
statements of a pipeline and the Sync that commits them (they go out together, but not all of a large batch fits in the socket)
does hold row locks, and the server counts it neither as idle nor as running a statement: only `transaction_timeout` ends that
(found by the crash-point matrix with SIGSTOP).
"""

import asyncio
import json
import re
import select
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from turnstile.backends.postgres.array_literal import array_literal
from turnstile.backends.postgres.hang_detection import ANSWER_SECONDS
from turnstile.backends.postgres.pipeline import PipeliningConnection
from turnstile.backends.postgres.startup_options import StartupOptions, as_flags
from turnstile.errors import DatabaseUnavailableError, RowLockedError

if TYPE_CHECKING:
    from sqlalchemy import ClauseElement

STATEMENT_TIMEOUT_SECONDS = 15
LOCK_TIMEOUT_SECONDS = 5
CONNECT_TIMEOUT_SECONDS = 3
TRANSACTION_TIMEOUT_SECONDS = 10
"""Of the hot statements: no session's head stays locked for longer by a process that is stopped, or by a vanished host."""

IDLE_SECONDS = 60.0
"""A pool gives back one connection in each such time in which it did not need it: a server's connections are everybody's."""

_GIVEN_UP = frozenset({"25P03", "25P04"})
"""The server ended a transaction that idled or lasted too long. psycopg calls it an internal error."""

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")

_decode_json = json.JSONDecoder().decode

Connection = PipeliningConnection
Parameters = Mapping[str, Any]

PINNED = {
    # The hot statements are prepared once per connection and planned once, for tables of any size: by index, row by
    # row. Left alone, a plan made while the table was empty scans it sequentially ever after, and a plan made anew
    # for each call costs more than the call.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "jit": "off",
}


def conninfo(
    url: str,
    application: str,
    *,
    pinned: bool = False,
    statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> str:
    """The libpq connection string: `url` with time-outs that notice a silent server within seconds."""
    given = conninfo_to_dict(url.replace("postgresql+psycopg://", "postgresql://", 1))
    options = _options(pinned, statement_timeout_seconds, lock_timeout_seconds)
    defaults = {
        "application_name": application,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        # After a failover the old primary may still answer: only a server that takes writes will do.
        "target_session_attrs": "read-write",
    }
    merged = {**defaults, **given, "options": f"{given.get('options') or ''} {as_flags(options)}".strip()}
    return make_conninfo(**cast("dict[str, Any]", merged))


def _options(pinned: bool, statement_timeout_seconds: float, lock_timeout_seconds: float) -> dict[str, str]:
    return {
        "statement_timeout": f"{statement_timeout_seconds * 1000:.0f}",
        "lock_timeout": f"{lock_timeout_seconds * 1000:.0f}",
        "idle_in_transaction_session_timeout": "10000",
        "TimeZone": "UTC",
        # The statements are written for it: whoever waited for a row looks at it again. A stricter default of an operator's
        # would refuse them instead, some only at the commit.
        "default_transaction_isolation": "read committed",
        **({**PINNED, "transaction_timeout": f"{TRANSACTION_TIMEOUT_SECONDS * 1000}"} if pinned else {}),
    }


def is_outage(error: psycopg.Error) -> bool:
    """Whether the server or the way to it failed, rather than the statement.

    25006 (read-only transaction) is what a demoted primary answers after a failover. Deadlocks and time-outs (40P01,
    55P03, 57014) are asked again like an outage, because nothing was done. Class 54 is an OperationalError too, but
    means that the statement asks for more than the server will ever do.
    """
    if isinstance(error, psycopg.InterfaceError) or error.sqlstate in _GIVEN_UP | {"25006"}:
        return True
    return isinstance(error, psycopg.OperationalError) and not (error.sqlstate or "").startswith("54")


def _has_been_ended(connection: Connection) -> bool:
    """As far as this end can tell: that a server has vanished without a word is not noticed here."""
    if connection.closed:
        return True
    # Nobody has been asked anything, so all that a server can have to say is why it hangs up.
    looking = select.poll()
    looking.register(connection.fileno(), select.POLLIN)
    return bool(looking.poll(0))


class Database:
    """A pool of autocommit connections that turns every way of being unreachable into DatabaseUnavailableError."""

    def __init__(
        self,
        url: str,
        application: str,
        *,
        size: int,
        pinned: bool = False,
        wait_seconds: float = 5.0,
        statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
        patience_seconds: float | None = None,
        first: LiteralString | None = None,
    ) -> None:
        """`first` is a statement that each connection runs before it is used. `patience_seconds` bounds the wait for an answer,
        where that is not to be as long as a server that is well may take."""
        self._options = StartupOptions(_options(pinned, statement_timeout_seconds, lock_timeout_seconds))
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo(
                url,
                application,
                pinned=pinned,
                statement_timeout_seconds=statement_timeout_seconds,
                lock_timeout_seconds=lock_timeout_seconds,
            ),
            connection_class=PipeliningConnection,
            configure=self._configure,
            kwargs={"autocommit": True, "row_factory": dict_row},
            min_size=1,
            max_size=size,
            open=False,
            timeout=wait_seconds,
            max_waiting=1000,
            # An outage must not leave the pool in a backoff of minutes when the server is back.
            reconnect_timeout=2.0,
            max_idle=IDLE_SECONDS,
            name=application,
        )
        # No answer of a server that is well takes longer. Outside of transactions that it bounds, a pipeline of two statements.
        self._patience_seconds = patience_seconds or ANSWER_SECONDS + (
            TRANSACTION_TIMEOUT_SECONDS if pinned else 2 * statement_timeout_seconds
        )
        self._first = first
        self._check: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts the pool; does not wait for the server, which may be away just now."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Closes all connections."""
        if self._check is not None:
            self._check.cancel()
        await self._pool.close(timeout=2.0)

    async def __aenter__(self) -> "Database":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _configure(self, connection: Connection) -> None:
        connection.patience_seconds = self._patience_seconds
        set_json_loads(_read_json, connection)
        await self._options.check(connection)
        if self._first is not None:
            try:
                await connection.execute(self._first)
            except psycopg.errors.UndefinedFunction as error:
                # The pool logs it and tries again: work begins when the migration has run.
                raise psycopg.OperationalError(
                    "the tables are older than this program: run `turnstile migrate`"
                ) from error

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection of the pool; raises DatabaseUnavailableError for an outage before or inside the block."""
        try:
            connection = await self._take()
            try:
                async with connection:
                    yield connection
            finally:
                await self._pool.putconn(connection)
        except psycopg.Error as error:
            if not is_outage(error):
                raise
            raise self._outage(error) from error

    async def _take(self) -> Connection:
        # psycopg's own check on check-out is a round trip, and a pause of a second for each connection that fails it.
        while True:
            connection = await self._get()
            if not _has_been_ended(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)

    async def _get(self) -> Connection:
        # The pool waits by `asyncio.wait_for`, and Python 3.11's loses a cancellation that meets the connection: a handler that
        # was told to stop would go on. The task itself still counts it.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        before = task.cancelling()
        connection = await self._pool.getconn()
        if task.cancelling() > before:
            await self._pool.putconn(connection)
            raise asyncio.CancelledError
        return connection

    def _outage(self, error: Exception) -> DatabaseUnavailableError:
        if self._check is None or self._check.done():
            # A restart of the server has broken the idle connections too; without this each of them would fail a call.
            self._check = asyncio.create_task(self._drop_broken())
        kind = RowLockedError if isinstance(error, psycopg.errors.LockNotAvailable) else DatabaseUnavailableError
        # Only the first line: the DETAIL that may follow carries row values. A pool that was refused says that it took too long.
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return kind(self._options.refused or said if isinstance(error, PoolTimeout) else said)

    async def _drop_broken(self) -> None:
        with suppress(psycopg.Error, PoolTimeout):
            await self._pool.check()

    async def ping(self) -> None:
        """Raises DatabaseUnavailableError if Postgres does not answer."""
        await self.fetch("SELECT 1", {})

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        """Runs one hot statement, prepared at once, and returns its rows. Lists are arrays, of the type that it casts them to."""
        [rows] = await self.fetch_pipelined([(statement, parameters)])
        return rows

    async def fetch_pipelined(self, statements: Sequence[tuple[LiteralString, Parameters]]) -> list[list[DictRow]]:
        """Runs several statements in one round trip and one commit; each sees what those before it wrote."""
        numbered = [(*number_placeholders(statement), parameters) for statement, parameters in statements]
        async with self.connection() as connection:
            return await connection.run([(text, _bound(values, names)) for text, names, values in numbered])

    async def query(self, statement: "ClauseElement") -> list[DictRow]:
        """Runs a SQLAlchemy Core statement: for the reads whose shape depends on the caller's filters."""
        # Imported here: a worker asks nothing of this shape, and would start a quarter of a second later.
        from sqlalchemy.dialects import postgresql

        dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
        compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
        async with self.connection() as connection:
            # Core quotes every value as a bound parameter; the text is made of our own table and column names.
            cursor = await connection.execute(str(compiled), compiled.params)
            return await cursor.fetchall()


def _read_json(stored: bytes | str) -> Any:
    # json.loads first finds out how its bytes are encoded, which costs more than to read a short value.
    return _decode_json(stored if isinstance(stored, str) else stored.decode())


def _bound(parameters: Parameters, names: Sequence[str]) -> list[Any]:
    values = [parameters[name] for name in names]
    return [array_literal(value) if isinstance(value, list) else value for value in values]


@cache
def number_placeholders(statement: LiteralString) -> tuple[LiteralString, tuple[str, ...]]:
    """The statement with Postgres's own placeholders, and the names of their values.

    Made once. psycopg would do it at every call of a statement of more than 4 KB, as the hottest are.
    """
    names = tuple(dict.fromkeys(_PLACEHOLDER.findall(statement)))
    return _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", statement), names
