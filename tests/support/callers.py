"""Applications with a transaction of their own: each kind of connection and session that `turnstile.submit` takes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from turnstile.submission.callers_transaction import SubmittedTurn, Submitter


class Caller:
    """One transaction of an application at a time. `where` is what the application has in its hands."""

    def __init__(self, where: Any, submitter: Submitter) -> None:
        self.where = where
        self._submitter = submitter

    async def submit(self, session_id: str, said: Any, **options: Any) -> SubmittedTurn:
        return await _result(self._submitter.submit(self.where, session_id, said, **options))

    async def commit(self) -> None:
        await _result(self.where.commit())

    async def rollback(self) -> None:
        await _result(self.where.rollback())


async def _result(given: Any) -> Any:
    return await given if hasattr(given, "__await__") else given


Open = Callable[[str, Submitter], AbstractAsyncContextManager[Caller]]


@asynccontextmanager
async def by_psycopg(url: str, submitter: Submitter) -> AsyncIterator[Caller]:
    with psycopg.connect(url) as connection:
        yield Caller(connection, submitter)


@asynccontextmanager
async def by_psycopg_async(url: str, submitter: Submitter) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Caller(connection, submitter)


@asynccontextmanager
async def by_sqlalchemy(url: str, submitter: Submitter, of: Callable[[Any], Any] = Connection) -> AsyncIterator[Caller]:
    engine = create_engine(_of_sqlalchemy(url), poolclass=pool.NullPool)
    with of(engine) as opened:
        yield Caller(opened, submitter)
    engine.dispose()


def by_session(url: str, submitter: Submitter) -> AbstractAsyncContextManager[Caller]:
    return by_sqlalchemy(url, submitter, Session)


@asynccontextmanager
async def by_sqlalchemy_async(
    url: str, submitter: Submitter, of: Callable[[AsyncEngine], Any] = AsyncConnection
) -> AsyncIterator[Caller]:
    engine = create_async_engine(_of_sqlalchemy(url), poolclass=pool.NullPool)
    async with of(engine) as opened:
        yield Caller(opened, submitter)
    await engine.dispose()


def by_async_session(url: str, submitter: Submitter) -> AbstractAsyncContextManager[Caller]:
    return by_sqlalchemy_async(url, submitter, AsyncSession)


def _of_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


ALL: tuple[Open, ...] = (
    by_psycopg,
    by_psycopg_async,
    by_sqlalchemy,
    by_session,
    by_sqlalchemy_async,
    by_async_session,
)
