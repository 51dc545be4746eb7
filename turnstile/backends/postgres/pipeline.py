"""Prepared statements that share one way to Postgres and back: one send, one wait, one commit. By libpq's own pipeline.

psycopg's sends each statement when it is executed, and the Sync after them by itself: three sends for the two statements of a
claim, and each wakes the server, which costs more than what is in it: two fifths of the CPU of such a call. Here everything goes
at once. Below psycopg's cursors, but not below its documented parts: `psycopg.pq` wraps libpq, its adapters convert the values,
and `wait` still watches over every answer.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Error, OperationalError, abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import DictRow
from psycopg.waiting import Ready, Wait

from turnstile.backends.postgres.hang_detection import BoundedAsyncConnection

Key = tuple[str, tuple[int, ...]]
"""A statement and the types of its values: Postgres prepares it for these."""


@dataclass(frozen=True, slots=True)
class Command:
    """One statement that is to be executed under its name, and to be prepared before if it is `new`."""

    key: Key
    name: bytes
    new: bool
    values: Sequence[Any]
    formats: Sequence[int]


class PipeliningConnection(BoundedAsyncConnection):
    """A connection that knows what it has prepared. For one caller at a time, as a pool hands it out."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self._statement_names: dict[Key, bytes] = {}
        self._forgotten = 0

    async def run(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[DictRow]]:
        """The rows of each statement, with `$1` for its first value. Each sees what those before it wrote.

        It is committed when this returns. Raises the psycopg.Error of the first that failed; then nothing was done, unless
        the connection broke: then everything may have been.
        """
        try:
            return await self._run(statements)
        except (InvalidSqlStatementName, FeatureNotSupported, DuplicatePreparedStatement) as error:
            # Somebody has deallocated what was prepared here: psycopg does after a rollback, if it has prepared anything itself,
            # as it does with what a transaction of several statements asks for the sixth time. Or a migration has changed the
            # columns of a `SELECT *`, which Postgres says of no plan but a cached one, and in words of the server's language.
            # Or a caller was cancelled after the server had prepared a statement, before the answer was read. Nothing was done.
            if isinstance(error, FeatureNotSupported) and error.diag.source_function != "RevalidateCachedQuery":
                raise
            self._statement_names.clear()
            # The server may have some of them still, and would refuse to prepare another under the same name.
            self._forgotten += 1
            return await self._run(statements)

    async def _run(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[DictRow]]:
        transformer = Transformer(self)
        commands = self._prepare(transformer, statements)
        try:
            results = await self.wait(_exchange(self.pgconn, commands))
        except BaseException:
            if self.pgconn.pipeline_status != PipelineStatus.OFF:
                # Whoever has it next would be given the answers of this.
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
                # For good, whatever becomes of the rest: it is no part of what is rolled back.
                self._statement_names[command.key] = command.name
            result = next(results)
            _raise_failure(result)
            yield result
        # What the commit itself had against it, such as a deferred constraint, comes after all of them.
        for beyond in results:
            _raise_failure(beyond)


def _name(key: Key, forgotten: int) -> bytes:
    """The same for the same statement in every process: where a pooler gives several clients one connection by turns, a name
    never stands for another client's statement."""
    text, types = key
    told = hashlib.sha256(f"{','.join(map(str, types))} {text}".encode()).hexdigest()[:32]
    return f"turnstile_{told}_{forgotten}".encode()


def _exchange(server: PGconn, commands: Sequence[Command]) -> abc.PQGen[list[PGresult]]:
    """Sends it all and collects the answers, in their order. Leaves pipeline mode only when it has all of them."""
    server.enter_pipeline_mode()
    for command in commands:
        if command.new:
            text, types = command.key
            server.send_prepare(command.name, text.encode(), types)
        server.send_query_prepared(command.name, command.values, command.formats)
    server.pipeline_sync()
    while server.flush():
        # More than the socket takes. The server may be waiting for its answers to be read before it reads on.
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
                # libpq has nothing more to give, and says so for as long as it is asked.
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
    """Before it hung up, the server may have said why: whoever asks again wants to know whether it is there."""
    said = (result for result in results if result.status == ExecStatus.FATAL_ERROR)
    by_server = next((result for result in said if result.error_field(DiagnosticField.SQLSTATE)), None)
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
