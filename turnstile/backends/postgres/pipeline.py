"""Prepared statements in one round trip to Postgres: one send, one wait, one commit, by libpq's pipeline mode.

psycopg's own pipeline sends each statement when it is executed, and then the Sync: three sends for the two statements of a
claim. Each send wakes the server, which costs two fifths of the CPU of such a call. Here everything is sent at once. The code is
below psycopg's cursors but uses only documented parts: `psycopg.pq` wraps libpq, psycopg's adapters convert the values, and
`wait` still bounds every response.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Error, OperationalError, abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import DictRow
from psycopg.waiting import Ready, Wait

from turnstile.backends.postgres.hang_detection import BoundedAsyncConnection
from turnstile.backends.postgres.outage import UnfitServerError
from turnstile.backends.postgres.startup_options import options_refused

Key = tuple[str, tuple[int, ...]]
"""A statement and the type OIDs of its values: Postgres prepares it per combination."""


@dataclass(frozen=True, slots=True)
class Command:
    """One statement to execute by its prepared name. If `new`, it must be prepared first."""

    key: Key
    name: bytes
    new: bool
    values: Sequence[Any]
    formats: Sequence[int]


class PipeliningConnection(BoundedAsyncConnection):
    """A connection that tracks its prepared statements. For one caller at a time, like any pooled connection."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self._statement_names: dict[Key, bytes] = {}
        self._forgotten = 0

    @classmethod
    async def connect(cls, *given: Any, **how: Any) -> Self:
        """Like psycopg's. A pooler that refuses the startup options is named. `on_failure` gets the error that is
        raised."""
        on_failure: Callable[[Error], None] = how.pop("on_failure", lambda _: None)
        connecting = super().connect(*given, **how)
        try:
            return await connecting
        except Error as error:
            refused = options_refused(error)
            failure = error if refused is None else UnfitServerError(refused)
            on_failure(failure)
            raise failure from (None if failure is error else error)

    async def run(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[DictRow]]:
        """The rows of each statement, with `$1` for its first value. Each statement sees the writes of the earlier ones.

        When this returns, everything is committed. Raises the psycopg.Error of the first failed statement: nothing was
        done then. If the connection broke, everything may have been committed.
        """
        try:
            return await self._run(statements)
        except (InvalidSqlStatementName, FeatureNotSupported, DuplicatePreparedStatement) as error:
            # Nothing was done, so a second run is safe. There are three causes:
            # - The prepared statements were deallocated. psycopg does that after a rollback if it has prepared a statement
            #   itself, and it prepares what a transaction of several statements executes for the sixth time.
            # - A migration has changed the columns of a `SELECT *`. Postgres reports that only for a cached plan. Its message
            #   is in the server's language, so the source function identifies it.
            # - A caller was cancelled after the server had prepared a statement, but before the response was read.
            if isinstance(error, FeatureNotSupported) and error.diag.source_function != "RevalidateCachedQuery":
                raise
            self._statement_names.clear()
            # The server may still have some of them, and would refuse a second statement with the same name.
            self._forgotten += 1
            if self.pgconn.transaction_status == TransactionStatus.INERROR:
                # The statements have begun a transaction of their own.
                await self.rollback()
            return await self._run(statements)

    async def _run(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[DictRow]]:
        transformer = Transformer(self)
        commands = self._prepare(transformer, statements)
        try:
            results = await self.wait(_exchange(self.pgconn, commands))
        except BaseException:
            if self.pgconn.pipeline_status != PipelineStatus.OFF:
                # The next caller of this connection would read the responses to these statements.
                await self.close()
            raise
        return [_rows(transformer, result) for result in self._read(commands, iter(results))]

    def _prepare(self, transformer: abc.Transformer, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[Command]:
        named: dict[Key, bytes] = {}
        commands = []
        for text, values in statements:
            dumped = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
            key = (text, tuple(transformer.types or ()))
            name = self._statement_names.get(key) or named.get(key)
            new = name is None
            if name is None:
                name = named[key] = _name(key, self._forgotten)
            commands.append(Command(key, name, new, dumped, transformer.formats or ()))
        return commands

    def _read(self, commands: Sequence[Command], results: Iterator[PGresult]) -> Iterator[PGresult]:
        for command in commands:
            if command.new:
                _raise_failure(next(results))
                # It stays prepared even if the rest fails: a rollback does not undo a prepare.
                self._statement_names[command.key] = command.name
            result = next(results)
            _raise_failure(result)
            yield result
        # An error of the commit itself, such as a deferred constraint, comes after all results.
        for beyond in results:
            _raise_failure(beyond)


def _name(key: Key, forgotten: int) -> bytes:
    """The same name for the same statement in every process: if a pooler shares a connection among clients, a name never
    means another client's statement."""
    text, types = key
    digest = hashlib.sha256(f"{','.join(map(str, types))} {text}".encode()).hexdigest()[:32]
    return f"turnstile_{digest}_{forgotten}".encode()


def _exchange(server: PGconn, commands: Sequence[Command]) -> abc.PQGen[list[PGresult]]:
    """Sends all commands and collects the results, in order. Leaves pipeline mode only when it has all of them."""
    server.enter_pipeline_mode()
    for command in commands:
        if command.new:
            text, types = command.key
            server.send_prepare(command.name, text.encode(), types)
        server.send_query_prepared(command.name, command.values, command.formats)
    server.pipeline_sync()
    while server.flush():
        # The socket's buffer is full. The server may wait until its responses are read before it reads more.
        while not (ready := (yield Wait.RW)):
            continue
        if ready & Ready.R:
            server.consume_input()
    results: list[PGresult] = []
    while True:
        while server.is_busy():
            while not (yield Wait.R):
                continue
            _consume(server, results)
        result = server.get_result()
        if result is None:
            if server.status == ConnStatus.BAD:
                # libpq would return None for ever.
                raise _why_broken(server, results)
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            break
        results.append(result)
    server.exit_pipeline_mode()
    return results


def _consume(server: PGconn, results: Sequence[PGresult]) -> None:
    try:
        server.consume_input()
    except OperationalError as error:
        raise _why_broken(server, results) from error


def _why_broken(server: PGconn, results: Sequence[PGresult]) -> Error:
    """The error that the server sent before it closed the connection, if any: its SQLSTATE classifies the failure."""
    failures = (result for result in results if result.status == ExecStatus.FATAL_ERROR)
    by_server = next((result for result in failures if result.error_field(DiagnosticField.SQLSTATE)), None)
    return OperationalError(server.get_error_message()) if by_server is None else error_from_result(by_server)


def _raise_failure(result: PGresult) -> None:
    if result.status == ExecStatus.FATAL_ERROR:
        raise error_from_result(result)


def _rows(transformer: abc.Transformer, result: PGresult) -> list[DictRow]:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    names = [(result.fname(place) or b"").decode() for place in range(result.nfields)]

    def name(values: Sequence[Any]) -> DictRow:
        return dict(zip(names, values, strict=True))

    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, name)
