"""Connections to Postgres, and the classification of their failures.

Every hot step of Turnstile is a single autocommit statement, or two or three in a pipeline. An operation that must read before it
writes is a transaction of several statements (a submit with a policy, a cancel, retry and skip). If its process stops between two
of them, `idle_in_transaction_session_timeout` ends the transaction. A process can also stop between the statements of a pipeline
and the Sync that commits them: they are sent together, but a large batch does not fit in the socket's buffer. Its transaction
then keeps row locks, and the server counts it neither as idle nor as running a statement. Only `transaction_timeout` ends it
(found by the crash-point matrix with SIGSTOP). PostgreSQL 15 and 16 have none: the locks last until the process goes on or ends.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, LiteralString, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from turnstile.backends.late_answer import is_answered
from turnstile.backends.postgres.hang_detection import ANSWER_SECONDS
from turnstile.backends.postgres.lending import Lending
from turnstile.backends.postgres.outage import ANSWERED, NewestConnection, is_outage
from turnstile.backends.postgres.pipeline import PipeliningConnection
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.placeholders import Parameters, bound, number_placeholders
from turnstile.backends.postgres.startup_options import FORM, StartupOptions, as_flags
from turnstile.backends.postgres.table_version import TableCheck
from turnstile.backends.postgres.tenant_setting import NAME_TENANTS, names_of, tenants_in
from turnstile.backends.postgres.unanswered import Unanswered
from turnstile.errors import MISFIT, MISFITS, ConnectionsBusyError, DatabaseUnavailableError, TablesUnfitError
from turnstile.sealing.contents import PLAIN, Contents
from turnstile.telemetry.backend_health import health_of

STATEMENT_TIMEOUT_SECONDS = 15
LOCK_TIMEOUT_SECONDS = 5
CONNECT_TIMEOUT_SECONDS = 3
TRANSACTION_TIMEOUT_SECONDS = 10
"""Limit of a hot statement's transaction: the longest that a stopped process or a vanished host keeps a session's head locked."""

CLOSE_SECONDS = 2.0
IDLE_SECONDS = 60.0
"""A pool closes one unused connection per such period, because all processes share the server's connections."""
RECONNECT_SECONDS = 2.0
"""Short: after an outage a pool must not stay in a backoff of minutes."""

_BEGIN_SNAPSHOT: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_decode_json = json.JSONDecoder().decode

Connection = PipeliningConnection
PINNED = {
    # The hot statements are prepared and planned once per connection, for tables of any size: by index, row by row.
    # Otherwise a plan made while the table was empty would keep its sequential scan, and a new plan for each call
    # would cost more than the call.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
}


def conninfo(
    place: DatabasePlace,
    application: str,
    *,
    pinned: bool = False,
    statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> str:
    """The libpq connection string: the place's URL and schema, with timeouts that detect a silent server within seconds."""
    given = conninfo_to_dict(place.libpq_url)
    options = _options(place.schema, pinned, statement_timeout_seconds, lock_timeout_seconds)
    defaults = {
        "application_name": application,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        # After a failover the old primary may still accept connections: only a writable server is usable.
        "target_session_attrs": "read-write",
    }
    flags = f"{given.get('options') or ''} {as_flags(options)}".strip()
    merged = {**defaults, **given, "options": flags, "client_encoding": "utf8"}
    return make_conninfo(**cast("dict[str, Any]", merged))


def _options(
    schema: str, pinned: bool, statement_timeout_seconds: float, lock_timeout_seconds: float
) -> dict[str, str]:
    if pinned:
        # For servers without a transaction timeout.
        statement_timeout_seconds = min(statement_timeout_seconds, TRANSACTION_TIMEOUT_SECONDS)
    return {
        "statement_timeout": f"{statement_timeout_seconds * 1000:.0f}",
        "lock_timeout": f"{lock_timeout_seconds * 1000:.0f}",
        "idle_in_transaction_session_timeout": "10000",
        "jit": "off",  # No statement runs for long enough. Servers before 18 would compile each one that must scan a table.
        **FORM,
        "search_path": schema,
        # The statements rely on it: after a wait for a row lock they read the row again. With a stricter default of the
        # server they would fail instead, some only at the commit.
        "default_transaction_isolation": "read committed",
        **(PINNED if pinned else {}),
    }


class Database:
    """A pool of autocommit connections. Every kind of outage raises DatabaseUnavailableError."""

    def __init__(
        self,
        place: DatabasePlace,
        application: str,
        *,
        size: int,
        pinned: bool = False,
        wait_seconds: float = 5.0,
        statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
        patience_seconds: float | None = None,
        first: LiteralString | None = None,
        contents: Contents = PLAIN,
        names_tenants: bool = False,
    ) -> None:
        """`first` is a statement that each new connection runs before its first use: one that reads the version of the tables, as
        READ_VERSION does. Without it, any tables will do. `patience_seconds` bounds the wait for a response; by default it is as
        long as a healthy server may take. `contents`: what the statements seal and open contents with. `names_tenants`: as the
        API, whose role sees only the rows of the tenants that a call names (`tenant_setting`)."""
        self.contents = contents
        self._names_tenants = names_tenants
        self._options = StartupOptions(
            _options(place.schema, pinned, statement_timeout_seconds, lock_timeout_seconds),
            transaction_timeout_seconds=TRANSACTION_TIMEOUT_SECONDS if pinned else None,
        )
        self._newest = NewestConnection()
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo(
                place,
                application,
                pinned=pinned,
                statement_timeout_seconds=statement_timeout_seconds,
                lock_timeout_seconds=lock_timeout_seconds,
            ),
            connection_class=PipeliningConnection,
            configure=self._configure,
            kwargs={"autocommit": True, "row_factory": dict_row, "on_failure": self._newest.failed},
            min_size=1,
            max_size=size,
            open=False,
            timeout=wait_seconds,
            max_waiting=1000,
            reconnect_timeout=RECONNECT_SECONDS,
            reconnect_failed=self._note_refusal,
            max_idle=IDLE_SECONDS,
            name=application,
        )
        self._lending = Lending(self._pool)
        # A healthy server never takes longer. Without a transaction timeout, the limit covers a pipeline of two statements.
        self._patience_seconds = patience_seconds or ANSWER_SECONDS + (
            TRANSACTION_TIMEOUT_SECONDS if pinned else 2 * statement_timeout_seconds
        )
        self._tables = None if first is None else TableCheck(first)
        self._health = health_of("postgres")
        self._unanswered = Unanswered()
        self._answers = 0
        """How often the server has answered this process: a call, or a new connection's check."""
        self._check: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts the pool; does not wait for the server, which may be down."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        if self._check is not None:
            self._check.cancel()
        await self._pool.close(timeout=CLOSE_SECONDS)

    async def __aenter__(self) -> "Database":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _configure(self, connection: Connection) -> None:
        connection.patience_seconds = self._patience_seconds
        set_json_loads(_read_json, connection)
        try:
            await self._options.check(connection)
            if self._tables is not None:
                await self._tables.check(connection)
        except psycopg.Error as error:
            self._newest.failed(error)
            raise
        self._answers += 1

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection from the pool.

        Raises DatabaseUnavailableError for an outage before or inside the block, ConnectionsBusyError if others have all
        connections for too long.
        """
        self._refuse_at_once()
        self._unanswered.asked(time.monotonic())
        before = self._answers
        try:
            connection = await self._lending.take()
            try:
                async with connection:
                    yield connection
            finally:
                await self._lending.give_back(connection)
            # A pool whose connections are all in use for a moment must not blame an attempt that failed long ago.
            self._newest.worked()
            self._health.responded()
            self._note_answer()
        except psycopg.Error as error:
            if not is_outage(error):
                self._note_answer()
                if self._tables is not None and error.sqlstate in MISFITS:
                    self._tables.note(MISFIT, error)
                    raise TablesUnfitError(MISFIT) from error
                raise
            if isinstance(error, PoolTimeout) and await is_answered(lambda: self._answers > before):
                raise ConnectionsBusyError(
                    "no connection came free in time, and Postgres answered other calls"
                ) from error
            raise self._outage(error) from error
        finally:
            self._unanswered.ended()

    def unanswered_for(self) -> float:
        """How long no call has got an answer, in seconds; 0 while no call waits. For any thread."""
        return self._unanswered.seconds(time.monotonic())

    def _note_answer(self) -> None:
        self._answers += 1
        self._unanswered.answered(time.monotonic())

    async def _note_refusal(self, _: object) -> None:
        # The pool could not connect. That is an outage, and no fault of this process.
        self._unanswered.answered(time.monotonic())

    def _outage(self, error: psycopg.Error) -> DatabaseUnavailableError:
        if error.sqlstate in ANSWERED:
            self._note_answer()
        else:
            self._unanswered.failed(time.monotonic())
            self._health.failed()
        if self._check is None or self._check.done():
            # A host that vanished breaks the idle connections too, and `Lending` does not see it: without this check each of
            # them would fail a call.
            self._check = asyncio.create_task(self._drop_broken())
        return self._newest.explain(error)

    def _refuse_at_once(self) -> None:
        # A wait for a connection would end in the same refusal.
        if (unfit := self._newest.unfit) is None or self._pool.get_stats()["pool_available"]:
            return
        self._health.failed()
        if self._looking is None or self._looking.done():
            # The pool tries to connect while somebody waits, and for RECONNECT_SECONDS.
            self._looking = asyncio.create_task(self._look_again())
        raise unfit

    async def _look_again(self) -> None:
        with suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(RECONNECT_SECONDS):
                connection = await self._lending.take()
                await self._lending.give_back(connection)

    async def _drop_broken(self) -> None:
        with suppress(psycopg.Error, PoolTimeout):
            await self._pool.check()

    async def ping(self) -> None:
        """Raises DatabaseUnavailableError if Postgres does not respond, TablesUnfitError if the tables can't be used."""
        if self._tables is None:
            await self.fetch("SELECT 1", {})
            return
        async with self.connection() as connection:
            refused = await self._tables.look(connection)
        if refused is not None:
            raise TablesUnfitError(refused)

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        """Runs one statement, prepared on first use, and returns its rows. It must cast a list parameter to an array type."""
        [rows] = await self.fetch_pipelined([(statement, parameters)])
        return rows

    async def fetch_pipelined(self, statements: Sequence[tuple[LiteralString, Parameters]]) -> list[list[DictRow]]:
        """Runs several statements in one round trip and one commit; each sees the writes of the earlier ones."""
        named = self._naming_tenants(statements)
        return (await self._send([*named, *statements]))[len(named) :]

    async def fetch_snapshot(self, statements: Sequence[tuple[LiteralString, Parameters]]) -> list[list[DictRow]]:
        """Runs several reads in one round trip; all of them see the tables as they were at one moment."""
        named = self._naming_tenants(statements)
        return (await self._send([(_BEGIN_SNAPSHOT, {}), *named, *statements, ("COMMIT", {})]))[len(named) + 1 : -1]

    def _naming_tenants(
        self, statements: Sequence[tuple[LiteralString, Parameters]]
    ) -> list[tuple[LiteralString, Parameters]]:
        if self._names_tenants and (tenants := tenants_in(parameters for _, parameters in statements)):
            return [(NAME_TENANTS, names_of(tenants))]
        return []

    async def _send(self, statements: Sequence[tuple[LiteralString, Parameters]]) -> list[list[DictRow]]:
        numbered = [(*number_placeholders(statement), parameters) for statement, parameters in statements]
        async with self.connection() as connection:
            return await connection.run([(text, bound(values, names)) for text, names, values in numbered])

    @asynccontextmanager
    async def transaction(self, tenant_id: str) -> AsyncIterator[Connection]:
        """A transaction of several sends, about one tenant. Raises as `connection`."""
        async with self.connection() as connection, connection.transaction():
            if self._names_tenants:
                await connection.execute(NAME_TENANTS, names_of([tenant_id]))
            yield connection


def _read_json(stored: bytes | str) -> Any:
    # json.loads first detects the encoding of bytes, which costs more than decoding a short value.
    return _decode_json(stored if isinstance(stored, str) else stored.decode())
