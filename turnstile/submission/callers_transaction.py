"""Submit in the caller's own transaction: the turn is there with the caller's commit, or not at all (ADR 0051).

    from turnstile import submit

    with Session(engine) as session, session.begin():
        session.add(message)
        session.flush()
        submit(session, "chat-1", message.text, key=f"message-{message.id}")

For connections of psycopg, and for connections and sessions of SQLAlchemy with any driver for Postgres. With one of asyncio the
result is awaited. The request is checked by the rules of the API before anything is written.
"""

import secrets
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier

from turnstile.config.config_file import load
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.sealing.contents import Contents
from turnstile.statements.submit import Submission
from turnstile.statements.submit_in_transaction import read_answer, request_of
from turnstile.submission.names import find_key_fault, find_session_fault, find_tenant_fault
from turnstile.submission.turn_request import RANDOM_BITS, InvalidRequestError, read_submission
from turnstile.turn.identifiers import DEFAULT_TENANT
from turnstile.turn.stored_json import encode

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    Synchronous = psycopg.Connection[Any] | Connection | Session | scoped_session[Any]
    Asynchronous = psycopg.AsyncConnection[Any] | AsyncConnection | AsyncSession | async_scoped_session[Any]


class SubmitOptions(TypedDict, total=False):
    """What a submit may have beside its input. None: left out. `docs/clients.md` describes the fields of a turn."""

    key: str | None
    """The idempotency key: equal requests with the same key are one turn."""
    tenant: str
    traceparent: str | None
    queue: str | None
    metadata: dict[str, Any] | None
    max_attempts: int | None
    timeout_seconds: float | None
    expires_in_seconds: float | None
    execute_at: datetime | None
    priority_seconds: float | None
    turn_id: UUID | None
    webhook_url: str | None


@dataclass(frozen=True, slots=True)
class SubmittedTurn:
    """A turn that is there once the caller's transaction is committed."""

    id: UUID
    session_id: str
    queue: str
    execute_at: datetime | None
    """When it is scheduled for; None if it is due at once."""
    expires_at: datetime
    created_at: datetime
    repeated: bool
    """An earlier request with the same key has made it."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the settings of a process say about its submits."""

    settings: Settings
    contents: Contents
    for_psycopg: Composed
    for_sqlalchemy: str

    @classmethod
    def of(cls, settings: Settings) -> "_Terms":
        schema = Identifier(settings.database_schema)
        for_psycopg = SQL("SELECT {}.submit_turn(%(request)s::text)").format(schema)
        for_sqlalchemy = f"SELECT {schema.as_string(None)}.submit_turn(CAST(:request AS text))"
        return cls(settings, read_contents(settings), for_psycopg, for_sqlalchemy)


class Submitter:
    """Submits turns in the transactions of its callers. One per process; any thread and any event loop may use it."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings` declare the queues, the schema, the keys that seal inputs, and the hosts of webhooks. None: the first submit
        reads them from the environment and turnstile.toml, as the API does. Raises SettingsError, as that submit then does."""
        self._given = None if settings is None else _Terms.of(settings)

    @cached_property
    def _terms(self) -> _Terms:
        return self._given or _Terms.of(load())

    @overload
    def submit(
        self, where: "Synchronous", session_id: str, input: Any, **options: Unpack[SubmitOptions]
    ) -> SubmittedTurn: ...

    @overload
    def submit(
        self, where: "Asynchronous", session_id: str, input: Any, **options: Unpack[SubmitOptions]
    ) -> Awaitable[SubmittedTurn]: ...

    def submit(
        self,
        where: "Synchronous | Asynchronous",
        session_id: str,
        input: Any,  # noqa: A002 - as the API calls it
        **options: Unpack[SubmitOptions],
    ) -> SubmittedTurn | Awaitable[SubmittedTurn]:
        """Records a turn in the transaction of `where`. On a connection that commits each statement, the turn is there at once.

        Raises InvalidRequestError, UnknownQueueError, WebhookNotAllowedError, or SubmissionRefusedError (the key, or the id,
        was used for another request): nothing was written, and the transaction may go on. Errors of the driver are the
        caller's, as those of its own statements.
        """
        terms = self._terms
        submission = _read(terms.settings, session_id, {**options, "input": input})
        call = _Call(submission, request_of(submission, terms.contents), terms)
        if isinstance(where, psycopg.Connection):
            cursor = psycopg.Cursor(where, row_factory=tuple_row)
            return call.read(cursor.execute(terms.for_psycopg, call.parameters).fetchone())
        if isinstance(where, psycopg.AsyncConnection):
            return _submit_by_psycopg(where, call)
        return _submit_by_sqlalchemy(where, call)


@dataclass(frozen=True, slots=True)
class _Call:
    """One submit: what the driver sends, and what its row means."""

    submission: Submission
    request: str
    terms: _Terms

    @property
    def parameters(self) -> dict[str, str]:
        return {"request": self.request}

    def read(self, row: Any) -> SubmittedTurn:
        answer = read_answer(row[0], self.submission, self.terms.contents)
        return SubmittedTurn(
            id=answer.turn_id,
            session_id=answer.session_id,
            queue=answer.queue,
            execute_at=answer.execute_at,
            expires_at=answer.expires_at,
            created_at=answer.created_at,
            repeated=answer.replayed,
        )


async def _submit_by_psycopg(where: psycopg.AsyncConnection[Any], call: _Call) -> SubmittedTurn:
    cursor = psycopg.AsyncCursor(where, row_factory=tuple_row)
    await cursor.execute(call.terms.for_psycopg, call.parameters)
    return call.read(await cursor.fetchone())


def _submit_by_sqlalchemy(where: Any, call: _Call) -> SubmittedTurn | Awaitable[SubmittedTurn]:
    # Imported here: who has a connection of psycopg does without it.
    from sqlalchemy import Connection, text
    from sqlalchemy.orm import Session, scoped_session

    statement = text(call.terms.for_sqlalchemy)
    if isinstance(where, Connection | Session | scoped_session):
        return call.read(where.execute(statement, call.parameters).one())
    # `sqlalchemy.ext.asyncio` can't be imported without greenlet. A caller that has one of its connections has imported it.
    of_asyncio = sys.modules.get("sqlalchemy.ext.asyncio")
    names = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    if of_asyncio is None or not isinstance(where, tuple(getattr(of_asyncio, name) for name in names)):
        wanted = "a connection of psycopg, or a connection or a session of SQLAlchemy"
        raise TypeError(f"submit takes {wanted}, not {type(where).__name__}")
    return _submit_by_asyncio(where, statement, call)


async def _submit_by_asyncio(where: Any, statement: Any, call: _Call) -> SubmittedTurn:
    return call.read((await where.execute(statement, call.parameters)).one())


def _read(settings: Settings, session_id: str, said: dict[str, Any]) -> Submission:
    key, tenant = said.pop("key", None), said.pop("tenant", DEFAULT_TENANT)
    traceparent = said.pop("traceparent", None)
    faults = {
        "/tenant": find_tenant_fault(tenant),
        "/session_id": find_session_fault(session_id, personal=settings.personal_session_ids),
        "/key": None if key is None else find_key_fault(key),
    }
    if found := [(pointer, fault) for pointer, fault in faults.items() if fault is not None]:
        raise InvalidRequestError(found)
    return read_submission(
        settings,
        tenant,
        session_id,
        _body_of(said, settings.max_body_bytes),
        key=key,
        now=datetime.now(UTC),
        random_bits=secrets.randbits(RANDOM_BITS),
        traceparent=traceparent,
    )


def _body_of(said: dict[str, Any], max_bytes: int) -> bytes:
    """The body that a client of the API sends for the same submit. Raises InvalidRequestError."""
    if "on_busy" in said:
        raise InvalidRequestError(
            [("/on_busy", "is for clients of the API: a submit in a transaction looks at no session")]
        )
    fields = {name: _as_sent(value) for name, value in said.items() if value is not None or name == "input"}
    try:
        body = encode(fields).encode()
    except UnicodeEncodeError:
        # `from None`: the text of the error quotes the input.
        raise InvalidRequestError([("", "has half of a surrogate pair, which UTF-8 does not have")]) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError([("", f"can't be written as JSON: {error}")]) from None
    if len(body) > max_bytes:
        raise InvalidRequestError([("", f"is longer than {max_bytes} bytes as JSON (TURNSTILE_MAX_BODY_BYTES)")])
    return body


def _as_sent(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case _:
            return value


submit = Submitter().submit
"""By the environment of its first call. `Submitter(settings).submit` does the same by other settings."""
